"""Models as judges: a client for OpenAI-compatible endpoints, and what keeps its answers honest."""
