"""Which model judges, where, and within what bounds.

The key is never an option: it is read from the environment at each call, so that no configuration,
manifest or repr can hold it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from botgrpo.sandbox.errors import ConfigError

URL_ENV, MODEL_ENV, KEY_ENV = "BOTGRPO_JUDGE_URL", "BOTGRPO_JUDGE_MODEL", "BOTGRPO_JUDGE_KEY"


class Settings(BaseModel):
    """One judge. Options of a judging reward besides its own; the defaults are the vetted ones.

    Attributes:
        url: base address of the endpoint, what stands before `/chat/completions`.
        model: its name there.
        key_env: name of the environment variable that holds the key; none is sent where it is
            unset.
        structured: how a schema is asked for: `response_format` (OpenAI, vLLM, llama.cpp),
            `structured_outputs` (vLLM since 0.12), or `none` (by the prompt alone). Where vLLM's
            answers end in white space up to the length limit, start it with
            `--structured-outputs-config '{"backend": "xgrammar", "disable_any_whitespace": true}'`.
        temperature: of sampling; 0 is not bit-stable on a server that batches.
        max_tokens: most tokens of one answer. One that was cut is no verdict.
        extra: further fields of the request's body; None takes a field away.
        timeout_s: of one call, from the moment it is sent.
        retries: after a 429, a 5xx, a timeout or a cut connection. An answer that cannot be read
            is asked for once more, whatever this says.
        backoff_s: pause before the first retry; doubles with each, with jitter.
        longest_pause_s: longest pause; an endpoint that asks for a longer one is given up.
        concurrency: most calls at once.
        seed: of the jitter.
        cache: True for the user's cache, a folder, or False. Answers that could be read come back
            from it, by the whole request (model, prompt, images, sampling) and not by the url.
        max_calls, max_total_tokens, max_cost: the budget of this reward in this process, retries
            included; what it no longer covers is unscored. Calls under way are let finish, so
            tokens and cost may pass their limit by these.
        price_in, price_out: money for a million tokens read and written.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    url: str = Field(min_length=1)
    model: str = Field(min_length=1)
    key_env: str = KEY_ENV
    structured: Literal["response_format", "structured_outputs", "none"] = "response_format"
    temperature: float = Field(0.0, ge=0)
    max_tokens: int = Field(1024, ge=1)
    extra: dict[str, Any] = Field(default_factory=dict)
    timeout_s: float = Field(120.0, gt=0)
    retries: int = Field(5, ge=0)
    backoff_s: float = Field(0.5, ge=0)
    longest_pause_s: float = Field(60.0, ge=0)
    concurrency: int = Field(64, ge=1)
    seed: int = 0
    cache: bool | str = True
    max_calls: int | None = Field(None, ge=0)
    max_total_tokens: int | None = Field(None, ge=0)
    max_cost: float | None = Field(None, ge=0)
    price_in: float = Field(0.0, ge=0)
    price_out: float = Field(0.0, ge=0)

    @property
    def cache_dir(self) -> Path | None:
        """The folder of cached answers, or None."""
        if self.cache is False:
            return None
        if isinstance(self.cache, str):
            return Path(self.cache).expanduser()
        home = os.environ.get("BOTGRPO_CACHE") or "~/.cache/botgrpo"
        return Path(home).expanduser() / "judge"

    def key(self) -> str | None:
        """The key, or None where none is set. Raises `ConfigError` for one that is no header."""
        key = os.environ.get(self.key_env, "").strip()
        if not re.fullmatch(r"[!-~]*", key):
            raise ConfigError(f"got a key in {self.key_env} with other than visible ASCII in it")
        return key or None

    def without_key(self, text: str) -> str:
        """`text` with the key blotted out: an endpoint may say back what it was sent."""
        key = self.key()
        if not key:
            return text
        # some JSON writers put a backslash before a slash
        return re.sub("".join(rf"\\?{re.escape(sign)}" for sign in key), "[key]", text)


def settings(
    reward: str,
    url: str | None,
    model: str | None,
    options: dict[str, Any],
    own: Sequence[str] = (),
) -> Settings:
    """The settings of `reward`'s judge; url and model default to the environment.

    `own` names the reward's options beside these, for the message that lists them. Raises
    `ConfigError` that says what to set. No message repeats what was given for an option that does
    not exist, since that may be a key.
    """
    url = url or os.environ.get(URL_ENV)
    model = model or os.environ.get(MODEL_ENV)
    if not url or not model:
        missing = " and ".join(n for n, v in (("url", url), ("model", model)) if not v)
        raise ConfigError(
            f"{reward} needs a judge, and got no {missing}: set {URL_ENV} (such as "
            f"http://localhost:8000/v1), {MODEL_ENV} and, where the endpoint asks for one, "
            f'{KEY_ENV}; or write {reward}(url="...", model="...")'
        )
    try:
        made = Settings(url=url.rstrip("/"), model=model, **options)
    except ValidationError as error:
        raise ConfigError(f"{reward}: {_first(error, options, own)}") from None
    _check(reward, made)
    return made


def _first(error: ValidationError, options: dict[str, Any], own: Sequence[str]) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    option = str(found["loc"][0])
    if option == "key_env":
        return "key_env is the name of an environment variable"
    if found["type"] != "extra_forbidden":
        return f"got {option} = {options.get(option)!r}; {found['msg']}"
    hint = f"; a key comes from {KEY_ENV} alone" if "key" in option.lower() else ""
    allowed = ", ".join((*own, *Settings.model_fields))
    return f"got the option {option}{hint}; a judge's options are {allowed}"


def _check(reward: str, made: Settings) -> None:
    try:
        parts = httpx2.URL(made.url)
    except httpx2.InvalidURL:
        raise ConfigError(f"{reward}: the judge's url cannot be read as one") from None
    if parts.scheme not in ("http", "https") or not parts.host or (parts.port or 0) > 65535:
        raise ConfigError(f"{reward}: a judge's url is http:// or https://, a host and a port")
    if parts.userinfo or parts.query or parts.fragment:
        # not shown: this is where people put keys
        raise ConfigError(
            f"{reward}: a judge's url holds no user, password or query; a key goes into "
            f"{made.key_env}"
        )
    if parts.path.endswith("/chat/completions"):
        raise ConfigError(f"{reward}: got url = {made.url}; leave out /chat/completions")
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", made.key_env):
        raise ConfigError(
            f"{reward}: key_env is the name of an environment variable, such as {KEY_ENV}, and "
            "not the key"
        )
    try:
        json.dumps(made.extra, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{reward}: extra holds what JSON has no form for: {error}") from None
    made.key()
    if made.max_cost is not None and not (made.price_in or made.price_out):
        raise ConfigError(f"{reward}: got max_cost without price_in and price_out")
