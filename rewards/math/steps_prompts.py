"""What `math.steps_judge` asks under each protocol, and the forms of the answers.

Sources of the protocols: ProcessBench arXiv 2412.06559 (the earliest wrong paragraph or -1),
StepWiser arXiv 2508.19229 (reasoning, then Positive or Negative for each chunk), OPV arXiv
2512.10756 (summarise, then the earliest wrong item of the summary). The words are ours.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from botgrpo.rewards.judges.prompts import Prompt

_MOST = 9999  # a number without an upper bound may never end


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StepVerdict(_Form):
    """One step, named by its number."""

    step: int = Field(ge=1, le=_MOST)
    why: str
    verdict: Literal["right", "unsure", "wrong"]


class WindowVerdict(_Form):
    """The steps that were asked about, in order."""

    steps: list[StepVerdict]


class FirstError(_Form):
    """Index of the earliest wrong paragraph, -1 where all are right."""

    why: str
    first_wrong: int = Field(ge=-1, le=_MOST)


class ChunkVerdict(_Form):
    """Reasoning first, then the verdict that it leads to."""

    reasoning: str
    verdict: Literal["Positive", "Negative"]


class SummaryItem(_Form):
    """What steps `first` to `last` of the trace establish."""

    first: int = Field(ge=1, le=_MOST)
    last: int = Field(ge=1, le=_MOST)
    text: str


class Summary(_Form):
    """The trace in short, in order."""

    items: list[SummaryItem] = Field(min_length=1)


_ROLE = """\
You check the solution of a mathematics problem, step by step. A step is wrong if it states \
something false, draws a conclusion that does not follow, misreads the problem, or rests on an \
error that it does not notice. A step that notices an error and takes it back is not wrong for \
that. Check every calculation yourself; do not trust that a result is right because it is stated."""

_JSON = "Answer with one JSON object and nothing else: "

WINDOW = Prompt(
    name="steps_judge.window",
    version="1",
    system=f"{_ROLE}\n\nSay of each step that you are asked about whether it is right, wrong, or "
    'cannot be told ("unsure").',
    request="The problem:\n\n$problem\n\nThe solution so far:\n\n$steps\n\n${earlier}"
    "Judge the steps $first to $last, each by itself, in order. "
    + _JSON
    + '{"steps": [{"step": N, "why": "one short sentence", "verdict": "right", "unsure" or '
    '"wrong"}, ...]}',
    form=WindowVerdict,
)

PROCESSBENCH = Prompt(
    name="steps_judge.processbench",
    version="1",
    system=_ROLE,
    request="The problem:\n\n$problem\n\nThe solution, in paragraphs numbered from 0:\n\n$steps\n\n"
    "Go through them in order. Give the number of the earliest paragraph that is wrong, or -1 if "
    "none is. " + _JSON + '{"why": "what is wrong there, in one short sentence", "first_wrong": N}',
    form=FirstError,
)

STEPWISER = Prompt(
    name="steps_judge.stepwiser",
    version="1",
    system=f"{_ROLE}\n\nReason about the step before you decide.",
    request="The problem:\n\n$problem\n\nThe solution so far:\n\n$steps\n\n${earlier}"
    "Judge the last step alone: reason about it, then say Positive if it is sound and Negative if "
    "it is not. " + _JSON + '{"reasoning": "...", "verdict": "Positive" or "Negative"}',
    form=ChunkVerdict,
)

SUMMARISE = Prompt(
    name="steps_judge.summarise",
    version="1",
    system="You shorten the reasoning of a solution to what it rests on. Keep every claim as it is "
    "stated, also where it is false: you repair nothing and judge nothing. Leave out detours that "
    "are taken back later.",
    request="The problem:\n\n$problem\n\nThe solution:\n\n$steps\n\n"
    "Summarise it as items in order, each with the numbers of the first and the last step that it "
    "sums up. No step is in two items. "
    + _JSON
    + '{"items": [{"first": N, "last": N, "text": "..."}, ...]}',
    form=Summary,
)

VERIFY = Prompt(
    name="steps_judge.verify",
    version="1",
    system=_ROLE,
    request="The problem:\n\n$problem\n\nA summary of a solution, in items numbered from 0:\n\n"
    "$steps\n\nGo through them in order. Give the number of the earliest item that is wrong, or -1 "
    "if none is. "
    + _JSON
    + '{"why": "what is wrong there, in one short sentence", "first_wrong": N}',
    form=FirstError,
)
