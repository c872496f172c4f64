"""Pictures that a reward saw on the way, for whoever wants to look: never part of a score.

A reward that renders a page calls `picture(rollout.id, png)`. Where nobody collects, as in
training, the bytes are dropped at once; `botgrpo score --html` collects, and sets them beside the
rollouts. It works through compositions and wrappers, since the collector belongs to the context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

ROOM_BYTES = 256 * 2**20  # more than any page shows; keeps a long run from filling the memory


@dataclass(slots=True)
class _Album:
    images: dict[str, bytes]
    room_bytes: int


_album: ContextVar[_Album | None] = ContextVar("botgrpo_album", default=None)


def picture(rollout_id: str, image: bytes) -> None:
    """Offer a PNG, JPEG, WebP or GIF of a rollout; the first of each rollout is kept."""
    album = _album.get()
    if album and rollout_id not in album.images and len(image) <= album.room_bytes:
        album.images[rollout_id] = image
        album.room_bytes -= len(image)


@contextmanager
def collecting() -> Iterator[Mapping[str, bytes]]:
    """What rewards offer inside, by rollout; tasks and `asyncio.to_thread` offer to it as well."""
    album = _Album({}, ROOM_BYTES)
    token = _album.set(album)
    try:
        yield album.images
    finally:
        _album.reset(token)
