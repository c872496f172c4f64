"""Images for a judge: data URLs whose type is told from the bytes and not from a name."""

from __future__ import annotations

import base64

from botgrpo.sandbox.errors import ConfigError


def data_url(image: bytes) -> str:
    """`data:image/...;base64,...`. Raises `ConfigError` for what is no PNG, JPEG, WebP or GIF."""
    return f"data:{mime(image)};base64,{base64.b64encode(image).decode('ascii')}"


def mime(image: bytes) -> str:
    """The MIME type by the first bytes; `ConfigError` for another kind."""
    if image.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if image.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if image[:4] == b"RIFF" and image[8:12] == b"WEBP":
        return "image/webp"
    if image.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    raise ConfigError(
        f"got an image that begins with {image[:8]!r}; allowed: PNG, JPEG, WebP or GIF"
    )
