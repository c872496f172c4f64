r"""How the authors of process reward models ask them: a question and its steps as token ids.

`qwen`: Qwen2.5-Math-PRM; a chat whose answer has `<extra_0>` after each step, two classes there.
`shepherd`: Math-Shepherd; plain text, `ки` after each step, the odds of `+` against `-` there.
`skywork`: Skywork-o1-Open-PRM; plain text, a value at the line end after each step, its sigmoid.
`rlhflow`: Llama3.1-8B-PRM; each step is a turn of the user, each answer `+`, whose odds against `-`
are read one token before. Sources: the model cards, and for the last two the code beside them
(SkyworkAI/skywork-o1-prm-inference, RLHFlow/RLHF-Reward-Modeling). Ids come from the tokenizer.

A candidate may write what the reading uses as a mark. Text that a tokenizer would take for one of
its own tokens is broken by a space first, and marks are found by place and not by looks.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from botgrpo.sandbox.errors import ConfigError

if TYPE_CHECKING:
    from botgrpo.rewards.prm import Sequenced

QWEN_SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
Place = tuple[int, int]
_PROBE = ("What is 1 + 1?", ("1 + 1 = 2.", "So it is 2."))


class Unplaced(Exception):
    """The marks after the steps are not all where they were put."""


class Reading(ABC):
    """One way to ask; `head` is where the answer is read (see `botgrpo.rewards.prm.StepModel`)."""

    head: str | tuple[int, int]

    def __init__(self, tokenizer: Any, folder: object) -> None:
        self.tokenizer = tokenizer
        self.folder = folder
        added = (str(token) for token in tokenizer.added_tokens_decoder.values())
        marks = [t for t in added if len(t) > 2 and not re.search(r"\s", t)]
        longest_first = sorted(map(re.escape, marks), key=len, reverse=True)
        self._own = re.compile("|".join(longest_first) or r"(?!)")
        self.prepare()
        try:
            self.sequence(*_PROBE)
        except Unplaced as error:
            raise self.refused(f"does not fit this reading: {error}") from None

    @abstractmethod
    def prepare(self) -> None:
        """Look up the ids; ConfigError names the token that is missing."""

    @abstractmethod
    def sequence(self, question: str, steps: Sequence[str]) -> Sequenced:
        """Ids, and the place of each step's answer; `Unplaced` where they cannot be told."""

    def refused(self, why: str) -> ConfigError:
        """The error of a tokenizer that belongs to another reading."""
        names = ", ".join(READINGS)
        return ConfigError(f"the tokenizer in {self.folder} {why}; the readings are {names}")

    def safe(self, text: str) -> str:
        """The text without tokens of the tokenizer's own."""
        return self._own.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def ids(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids; `special`: with what the tokenizer puts around a text."""
        return list(self.tokenizer.encode(text, add_special_tokens=special))

    def single(self, text: str) -> int:
        """The id of a text that must be one token."""
        ids = self.ids(text)
        if len(ids) != 1 or ids[0] == self.tokenizer.unk_token_id:
            raise self.refused(f"has no token {text!r}")
        return ids[0]

    def signs(self) -> tuple[int, int]:
        """Ids of `-` and `+` as they follow each other in a text: wrong, right."""
        ids = self.ids("+ -")
        if len(ids) != 2 or self.tokenizer.unk_token_id in ids:
            raise self.refused("has no tokens '+' and '-'")
        return ids[1], ids[0]

    def chat(self, messages: Sequence[dict[str, str]], *, open_end: bool = False) -> str:
        """A chat as the template writes it."""
        if self.tokenizer.chat_template is None:
            raise self.refused("has no chat template")
        text: str = self.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=open_end
        )
        return text

    def placed(self, text: str, *, special: bool = False) -> tuple[list[int], list[Place]]:
        """Token ids, and the place of each in code points."""
        found = self.tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
        return list(found["input_ids"]), list(found["offset_mapping"])


class Qwen(Reading):
    """`<extra_0>` after each step of the assistant's answer; class 1 of two is right."""

    head = "score"
    mark = "<extra_0>"

    def prepare(self) -> None:
        self._mark = self.single(self.mark)

    def sequence(self, question: str, steps: Sequence[str]) -> Sequenced:
        chat = (
            {"role": "system", "content": QWEN_SYSTEM},
            {"role": "user", "content": self.safe(question)},
            {"role": "assistant", "content": "".join(self.safe(s) + self.mark for s in steps)},
        )
        ids = self.ids(self.chat(chat))
        return _sequenced(ids, [at for at, one in enumerate(ids) if one == self._mark], steps)


class Shepherd(Reading):
    """`ки` after each step, at which the model says `+` or `-`."""

    mark = "ки"

    def prepare(self) -> None:
        ids, places = self.placed(f"x {self.mark}")
        whole = len(ids) == len(self.ids("x")) + 1 and places[-1][1] == len(f"x {self.mark}")
        if not whole or ids[-1] == self.tokenizer.unk_token_id:
            raise self.refused(f"has no token {self.mark!r}")
        self._mark = ids[-1]
        self.head = self.signs()

    def sequence(self, question: str, steps: Sequence[str]) -> Sequenced:
        text, marks = f"{self.safe(question)} ", []
        for n, step in enumerate(steps, 1):
            named = "" if re.match(rf"Step {n}\b", step) else f"Step {n}: "
            text += f"{named}{self.safe(step)} {self.mark}"
            marks.append(len(text))
            text += "\n"
        ids, spans = self.placed(text[:-1], special=True)
        wanted = set(marks)
        places = [
            at
            for at, (one, (_, end)) in enumerate(zip(ids, spans, strict=True))
            if one == self._mark and end in wanted
        ]
        return _sequenced(ids, places, steps)


class Skywork(Reading):
    """A value at the line end after each step; a step's own line ends are marks as well, as the
    authors' are, but not read."""

    head = "v_head"

    def prepare(self) -> None:
        self._mark = self.single("\n")

    def sequence(self, question: str, steps: Sequence[str]) -> Sequenced:
        ids = self.ids(f"{self.tokenizer.bos_token or ''}{self.safe(question)}\n")
        places = []
        for step in steps:
            for line in self.safe(step).split("\n"):
                ids += [*self.ids(line), self._mark]
            places.append(len(ids) - 1)
        return _sequenced(ids, places, steps)


class Rlhflow(Reading):
    """Each step is the user's turn, each answer `+`: what the model would have said is read."""

    def prepare(self) -> None:
        self._right = self.single("+")
        self.head = (self.single("-"), self._right)

    def sequence(self, question: str, steps: Sequence[str]) -> Sequenced:
        chat: list[dict[str, str]] = []
        answers: set[int] = set()  # where in the text the model answers
        for n, step in enumerate(steps):
            asked = f"{question} {step}" if n == 0 else step
            chat.append({"role": "user", "content": self.safe(asked)})
            answers.add(len(self.chat(chat, open_end=True)))
            chat.append({"role": "assistant", "content": "+"})
        ids, spans = self.placed(self.chat(chat))
        places = [
            at - 1
            for at, (one, (start, _)) in enumerate(zip(ids, spans, strict=True))
            if one == self._right and start in answers
        ]
        return _sequenced(ids, places, steps)


READINGS: dict[str, type[Reading]] = {
    "qwen": Qwen,
    "shepherd": Shepherd,
    "skywork": Skywork,
    "rlhflow": Rlhflow,
}


def _sequenced(ids: list[int], places: list[int], steps: Sequence[str]) -> Sequenced:
    from botgrpo.rewards.prm import Sequenced

    if len(places) != len(steps):
        raise Unplaced(f"{len(places)} marks for {len(steps)} steps")
    return Sequenced(ids, places)
