"""Untrusted code: isolated, judged, never run with your rights. Knows nothing of rewards."""
