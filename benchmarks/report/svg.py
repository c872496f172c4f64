"""Small pieces of SVG: escaped elements, ticks, and the frame that every chart shares."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

# what does not print, or turns the text around it: controls, bidi marks, separators, surrogates
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Text in which invisible and direction-changing characters are named: `⟨U+202E⟩`."""
    return _INVISIBLE.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def tag(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """One element; attributes and plain children are escaped, `class_` and `text_anchor` work."""
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(visible(_short(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(c if isinstance(c, Markup) else escape(visible(c)) for c in children)
    return Markup(f"<{name}{pairs}>{inner}</{name}>" if inner else f"<{name}{pairs}/>")


def _short(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within [low, high]: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value: float) -> str:
    """A tick's label: no trailing zeros, a real minus sign."""
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


@dataclass(frozen=True, slots=True)
class Frame:
    """A plotting area of `width` x `height` px with margins and two linear scales."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        low, high = self.x_range
        share = (value - low) / (high - low) if high > low else 0.5
        return self.left + share * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        low, high = self.y_range
        share = (value - low) / (high - low) if high > low else 0.5
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)

    def path(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        """A polyline in user coordinates."""
        points = (f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in zip(xs, ys, strict=True))
        return "M" + "L".join(points)

    def ribbon(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
        """A closed area between two lines."""
        back = self.path(list(reversed(xs)), list(reversed(high)))
        return self.path(xs, low) + "L" + back[1:] + "Z"

    def x_axis(self, label: str, *, grid: bool = False, about: int = 6) -> Markup:
        foot = self.height - self.bottom
        parts: list[Markup] = []
        for value in ticks(*self.x_range, about):
            x = self.x(value)
            if grid:
                parts.append(tag("line", class_="grid", x1=x, x2=x, y1=float(self.top), y2=foot))
            parts.append(
                tag("text", number(value), class_="tick", x=x, y=foot + 18, text_anchor="middle")
            )
        middle = (self.left + self.width - self.right) / 2
        parts.append(tag("text", label, class_="axis", x=middle, y=foot + 36, text_anchor="middle"))
        return join(parts)

    def y_axis(self, *, about: int = 5) -> Markup:
        parts: list[Markup] = []
        for value in ticks(*self.y_range, about):
            y, end = self.y(value), float(self.width - self.right)
            parts.append(tag("line", class_="grid", x1=float(self.left), x2=end, y1=y, y2=y))
            parts.append(
                tag(
                    "text",
                    number(value),
                    class_="tick",
                    x=self.left - 8,
                    y=y + 4,
                    text_anchor="end",
                )
            )
        return join(parts)


def join(parts: Iterable[Markup]) -> Markup:
    """Fragments one after another."""
    return Markup("").join(parts)


def figure(frame: Frame, id: str, title: str, description: str, *parts: Markup) -> Markup:
    """An <svg> with a title and a description for screen readers."""
    return tag(
        "svg",
        tag("title", title, id=f"{id}-t"),
        tag("desc", description, id=f"{id}-d"),
        *parts,
        viewBox=f"0 0 {frame.width} {frame.height}",
        role="img",
        aria_labelledby=f"{id}-t {id}-d",
    )
