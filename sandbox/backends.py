"""From a backend's name to a backend. Nothing runs without isolation unless `unsafe` is named."""

from __future__ import annotations

from collections.abc import Callable

from botgrpo.sandbox.base import Backend
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.unsafe import Unsafe


def chooser(name: str) -> Callable[[], Backend]:
    """A function that gives a working backend or raises SandboxUnavailable.

    Raises ConfigError at once for a name that does not exist.
    """
    if name == "auto":
        return _auto
    makers: dict[str, Callable[[], Backend]] = {
        "bubblewrap": Bubblewrap,
        "unsafe": Unsafe,
    }
    if name not in makers:
        raise ConfigError(
            f"no sandbox backend {name!r}. Allowed: auto, docker, bubblewrap, and unsafe, "
            "which isolates nothing."
        )
    return lambda: _checked(makers[name]())


def _checked(backend: Backend) -> Backend:
    backend.check()
    return backend


def _auto() -> Backend:
    refusals = []
    for maker in (Bubblewrap,):
        try:
            return _checked(maker())
        except SandboxUnavailable as error:
            refusals.append(f"- {maker.name}: {error}")
    raise SandboxUnavailable("nothing here can isolate a candidate.\n" + "\n".join(refusals))
