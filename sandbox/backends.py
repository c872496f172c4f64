"""From a backend's name to a backend. Nothing runs without isolation unless `unsafe` is named."""

from __future__ import annotations

from collections.abc import Callable

from botgrpo.sandbox.base import COMPILE, DEFAULT_LIMITS, Backend, Limits, Program
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.docker import Docker
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.unsafe import Unsafe


def chooser(
    name: str, limits: Limits = DEFAULT_LIMITS, program: Program = COMPILE
) -> Callable[[], Backend]:
    """A function that gives a backend which can run `program`, or raises SandboxUnavailable.

    Raises ConfigError at once for a name that does not exist.
    """
    if name == "auto":
        return lambda: auto(limits, program)
    makers: dict[str, Callable[[Limits, Program], Backend]] = {
        "docker": Docker,
        "bubblewrap": Bubblewrap,
        "unsafe": Unsafe,
    }
    if name not in makers:
        raise ConfigError(
            f"no sandbox backend {name!r}. Allowed: auto, docker, bubblewrap, and unsafe, "
            "which isolates nothing."
        )
    return lambda: _checked(makers[name](limits, program))


def _checked(backend: Backend) -> Backend:
    try:
        backend.check()
    except BaseException:
        backend.close()
        raise
    return backend


def auto(limits: Limits = DEFAULT_LIMITS, program: Program = COMPILE) -> Backend:
    """Docker where an engine answers, else bubblewrap where it works, else SandboxUnavailable."""
    makers: tuple[Callable[[Limits, Program], Backend], ...] = (Docker, Bubblewrap)
    refusals = []
    for maker in makers:
        try:
            return _checked(maker(limits, program))
        except SandboxUnavailable as error:
            refusals.append(f"- {error}")
    raise SandboxUnavailable("nothing here can isolate a candidate.\n" + "\n".join(refusals))
