"""One offline page about a suite, and the same verdict as plain lines."""

from botgrpo.benchmarks.report.page import write_report
from botgrpo.benchmarks.report.words import verdict_text

__all__ = ["verdict_text", "write_report"]
