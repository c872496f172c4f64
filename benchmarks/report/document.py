"""What every page shares: escaping as the last door, our own style and script, one hash for it.

Every text passes jinja2's escaping and `visible`, never `|safe`; a Content-Security-Policy lets the
page's own script run by its hash, nothing else, and no network.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from botgrpo.benchmarks.report.svg import visible

TEMPLATES = Path(__file__).parent / "templates"


def environment() -> Environment:
    """Templates that escape; a name that is not there is an error."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    made.filters["fixed"] = _fixed
    return made


def static(script: str, *styles: str) -> dict[str, Markup | str]:
    """`style`, `script` and `script_hash` of a page, from files beside the templates."""
    code = (TEMPLATES / script).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    style = "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in styles)
    return {"style": Markup(style), "script": Markup(code), "script_hash": f"sha256-{digest}"}


def write_page(path: Path, html: str) -> Path:
    """UTF-8 on disk; what cannot be encoded becomes a character reference."""
    path.write_bytes(html.encode("utf-8", "xmlcharrefreplace"))
    return path


def _finalize(value: object) -> object:
    """The last door before the page: no text gets past it with invisible characters."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _fixed(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")
