"""From a backend's name to a backend. Nothing runs without isolation unless `unsafe` is named."""

from __future__ import annotations

from collections.abc import Callable

from botgrpo.sandbox.base import DEFAULT_LIMITS, Backend, Limits
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.docker import Docker
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.unsafe import Unsafe


def chooser(name: str, limits: Limits = DEFAULT_LIMITS) -> Callable[[], Backend]:
    """A function that gives a working backend or raises SandboxUnavailable.

    Raises ConfigError at once for a name that does not exist.
    """
    if name == "auto":
        return lambda: auto(limits)
    makers: dict[str, Callable[[Limits], Backend]] = {
        "docker": Docker,
        "bubblewrap": Bubblewrap,
        "unsafe": Unsafe,
    }
    if name not in makers:
        raise ConfigError(
            f"no sandbox backend {name!r}. Allowed: auto, docker, bubblewrap, and unsafe, "
            "which isolates nothing."
        )
    return lambda: _checked(makers[name](limits))


def _checked(backend: Backend) -> Backend:
    try:
        backend.check()
    except BaseException:
        backend.close()
        raise
    return backend


def auto(limits: Limits = DEFAULT_LIMITS) -> Backend:
    """Docker where an engine answers, else bubblewrap where it works, else SandboxUnavailable."""
    makers: tuple[Callable[[Limits], Backend], ...] = (Docker, Bubblewrap)
    refusals = []
    for maker in makers:
        try:
            return _checked(maker(limits))
        except SandboxUnavailable as error:
            refusals.append(f"- {error}")
    raise SandboxUnavailable("nothing here can isolate a candidate.\n" + "\n".join(refusals))
