"""What a judge is asked, how that looks on the wire, and what came back.

A question is independent of the endpoint; `body` turns it into an OpenAI-compatible request.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from botgrpo.rewards.judges.images import data_url
from botgrpo.rewards.judges.settings import Settings

Form = TypeVar("Form", bound=BaseModel)

_TOP_LOGPROBS = 20  # what vLLM and OpenAI grant without being asked
_LEAST_MASS, _MOST_MASS = 0.9, 1.1  # of the probability; rounded ones may sum to more than 1
_FENCED = re.compile(r"```(?:json)?\n(.*)\n```", re.DOTALL)
_END_THINK = "</think>"
_ANSWER = re.compile(rf"(?:\A|{_END_THINK})\s*+(?=\{{|```)")


class Unreadable(Exception):
    """An answer came and holds no verdict; the message says why, without the answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """One call's content.

    Attributes:
        system: our own words, without a candidate's text.
        parts: the request, in order; text (a candidate's part of it through `fence`) or the bytes
            of an image. Name each image in the text before it.
    """

    system: str
    parts: Sequence[str | bytes]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model said.

    Attributes:
        content: its text, empty where it said none.
        finish: why it stopped; "length" for an answer that was cut.
        first_token: (token, log-probability) of the likeliest first tokens, where asked for.
        tokens_in, tokens_out: as the endpoint counts them.
    """

    content: str
    finish: str = "stop"
    first_token: tuple[tuple[str, float], ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0


def body(
    question: Question, settings: Settings, form: type[BaseModel] | None, *, words: bool = True
) -> dict[str, Any]:
    """The request: an answer of `form`, or with `words` off the likeliest first tokens."""
    made: dict[str, Any] = {
        "model": settings.model,
        "messages": [
            {"role": "system", "content": question.system},
            {"role": "user", "content": _content(question.parts)},
        ],
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
    }
    if not words:
        made |= {"max_tokens": 1, "logprobs": True, "top_logprobs": _TOP_LOGPROBS}
    elif form is not None:
        made |= _schema(form, settings.structured)
    made |= settings.extra
    return {name: value for name, value in made.items() if value is not None}


def _content(parts: Sequence[str | bytes]) -> str | list[dict[str, Any]]:
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) == len(parts):
        return "\n\n".join(texts)  # many chat templates know no list of parts
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": data_url(part)}}
        for part in parts
    ]


@functools.cache  # making a schema takes longer than all else that a cached answer needs
def _schema(form: type[BaseModel], structured: str) -> dict[str, Any]:
    schema = form.model_json_schema()
    if structured == "response_format":
        named = {"name": form.__name__, "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if structured == "structured_outputs":
        return {"structured_outputs": {"json": schema}}
    return {}


def read_form(reply: Reply, form: type[Form]) -> Form:
    """The answer as `form`; nothing is guessed or mended.

    Thinking before it is passed over, and one code fence around all of it. Raises `Unreadable`.
    """
    if reply.finish == "length":
        raise Unreadable("the answer was cut at its length limit")
    text = _answer(reply.content)
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    if not text:
        raise Unreadable("the answer is empty")
    try:
        data = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)
        return form.model_validate(data, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in found["loc"]) or "it"
        raise Unreadable(f"the answer has the wrong form: {where[:80]}: {found['msg']}") from None
    except (ValueError, RecursionError):
        raise Unreadable("the answer is not one JSON object") from None


def _answer(content: str) -> str:
    """What follows the thinking.

    An answer may quote the page, and a page may hold the end of thinking and a verdict that it
    would like. So what begins as an answer is one to its end, before thinking or after it.
    """
    begins = _ANSWER.search(content)
    return content[begins.end() :].strip() if begins else content.rpartition(_END_THINK)[2].strip()


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError  # which of two scores would count?
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def read_expected(reply: Reply, values: Mapping[str, float]) -> float:
    """Expected value of the first token: sum of value * p over the sum of p.

    `values` maps an answer of one token to its value; tokens that differ in blanks around it are
    merged. Raises `Unreadable` where the answers hold less than 0.9 of the probability, since such
    a model was about to say something else, or clearly more than all of it.
    """
    weights = dict.fromkeys(values, 0.0)
    for token, logprob in reply.first_token:
        if token.strip() in weights:
            weights[token.strip()] += math.exp(logprob)
    mass = sum(weights.values())
    if not mass >= _LEAST_MASS:
        raise Unreadable(f"the answers hold {mass:.2f} of the probability, less than {_LEAST_MASS}")
    if mass > _MOST_MASS:
        raise Unreadable(f"the answers hold {mass:.2f} of the probability: more than all of it")
    return sum(values[token] * weight for token, weight in weights.items()) / mass
