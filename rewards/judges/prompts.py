"""Prompts as data: our own words, versioned, and hashed for a run's manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from string import Template

from pydantic import BaseModel

from botgrpo.rewards import base
from botgrpo.rewards.judges.fence import RULE
from botgrpo.rewards.judges.question import Question


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question with holes.

    Attributes:
        name: what it asks for.
        version: changes with its meaning.
        system: the judge's instructions; what fences mean is added to them.
        request: the request, with `$name` for each text that is put in.
        form: the form of the answer, or None for one token.
        pictures: what is said before each picture that goes along, after the request.
    """

    name: str
    version: str
    system: str
    request: str
    form: type[BaseModel] | None = None
    pictures: tuple[str, ...] = ()

    def fill(self, *pictures: bytes, **texts: str) -> Question:
        """The question, with a picture for each of `pictures`.

        A candidate's text comes in through `fence`; nothing in it is a hole.
        """
        parts: list[str | bytes] = [Template(self.request).substitute(texts)]
        for caption, picture in zip(self.pictures, pictures, strict=True):
            parts += [caption, picture]
        return Question(f"{self.system}\n\n{RULE}", tuple(parts))


def prompt_hash(prompts: Sequence[Prompt]) -> str:
    """SHA-256 over everything that the judge is told, the forms of its answers included."""
    said = [
        (
            *(p.name, p.version, p.system, RULE, p.request),
            p.form and p.form.model_json_schema(),
            *p.pictures,
        )
        for p in prompts
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def request_text(prompt: base.Prompt) -> str:
    """What the user asked for: text as it is, of a chat the messages with their roles."""
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(f"{m.get('role', '')}: {m.get('content', '')}" for m in prompt)
