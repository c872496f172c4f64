"""A stand-in for a judge's model: scripted opinions of code, and the server that can fail."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from botgrpo.benchmarks.stand_in_faults import FAULTS, TEN, WRONG, JudgeServer

__all__ = ["FAULTS", "TEN", "WRONG", "JudgeServer", "code_of", "opinion"]


def code_of(request: Mapping[str, Any]) -> str:
    """The fenced, numbered code that a request holds."""
    content = request["messages"][1]["content"]
    found = re.search(r"<<<CODE (\w+)>>>\n(.*)\n<<<END CODE \1>>>", content, re.DOTALL)
    assert found is not None
    return found[2]


def opinion(request: Mapping[str, Any]) -> str:
    """What a sensible judge says of the examples: many lines with a button are good."""
    code = code_of(request)
    good = "<button" in code
    lines = [] if good else [{"line": 2, "why": "an empty page", "impact": -3}]
    answer = {"react": True, "remark": "fine" if good else "empty", "lines": lines}
    if '"score"' in request["messages"][1]["content"]:
        answer["score"] = 9 if good else 1
    return json.dumps(answer)
