"""What `react.code_judge` asks, and the form of the answer."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from botgrpo.rewards.judges.prompts import Prompt
from botgrpo.rewards.react.judged_lines import Blame


class CodeLines(BaseModel):
    """Findings alone, where the score comes from a call of its own."""

    model_config = ConfigDict(extra="forbid")

    react: bool
    remark: str
    lines: list[Blame] = Field(max_length=3)


class CodeVerdict(CodeLines):
    """Findings first, so that the score follows from them."""

    score: int = Field(ge=0, le=10)


_ROLE = """\
You review React code that was written for a user's request. It shall be one file whose default \
export is a component. Tailwind classes are available and the packages react, react-dom, \
lucide-react, recharts, framer-motion, motion, clsx and tailwind-merge; no others.

Weigh three things alike:
- validity: would it compile and run without an error, with its hooks used as the rules ask?
- task: does it do what the request asks, all of it, with controls that work?
- looks: would the page be clear, well laid out and pleasant?
"""

_SCALE = """\
10 is work that you would ship as it is, 7 good work with small faults, 5 half of what was asked, \
2 a sketch, 0 nothing of use. Code that ignores the request scores low however tidy it is."""

_LINES = """\
"lines" names up to three lines that harm the result most, by the number before the line: impact \
-1 for a small fault, -2 for a serious one, -3 for one that breaks the page or misses the request. \
Name no line where nothing is wrong. "why" is one short sentence. "react" is false only where the \
text is not React code at all. "remark" sums up in one sentence."""

_REQUEST = "The request:\n\n$request\n\nThe code, with line numbers:\n\n$code\n\n"

FULL = Prompt(
    name="code_judge.full",
    version="2",
    system=f"{_ROLE}\n{_SCALE}\n\n{_LINES}",
    request=_REQUEST + "Answer with one JSON object and nothing else, its fields in this order: "
    '{"react": true or false, "remark": "...", "lines": [{"line": N, "why": "...", '
    '"impact": -1, -2 or -3}, ...], "score": 0 to 10}',
    form=CodeVerdict,
)

LINES = Prompt(
    name="code_judge.lines",
    version="2",
    system=f"{_ROLE}\n{_LINES}",
    request=_REQUEST + "Answer with one JSON object and nothing else, its fields in this order: "
    '{"react": true or false, "remark": "...", "lines": [{"line": N, "why": "...", '
    '"impact": -1, -2 or -3}, ...]}',
    form=CodeLines,
)

# One digit is one token to every tokenizer; "10" is not, and would be counted as a 1.
DIGIT = Prompt(
    name="code_judge.digit",
    version="2",
    system=f"{_ROLE}\n{_SCALE.replace('10 is work', '9 is work')}",
    request=_REQUEST + "How good is it, from 0 to 9? Answer with the one digit and nothing else.",
)
DIGITS = {str(digit): digit / 9 for digit in range(10)}
