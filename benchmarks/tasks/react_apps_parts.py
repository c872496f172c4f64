"""What the families of `react_apps` draw from: subjects, looks, openings, and how an app is put together."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# title, one of its things, eight things; every word can be seen on a page as it is
SUBJECTS: Sequence[tuple[str, str, tuple[str, ...]]] = (
    ("Corner Bakery", "loaf", ("Sourdough", "Rye bread", "Croissant", "Cinnamon roll", "Baguette", "Pretzel", "Brioche", "Bagel")),
    ("Green Thumb", "plant", ("Monstera", "Aloe vera", "Snake plant", "Peace lily", "Boston fern", "Jade plant", "Calathea", "Pothos")),
    ("Trail Club", "hike", ("Ridge walk", "Lake loop", "Summit path", "Canyon route", "Forest mile", "Coastal way", "Valley track", "Meadow round")),
    ("Book Nook", "book", ("Poems", "Mysteries", "Biographies", "Travel notes", "Cookbooks", "Short stories", "Histories", "Comics")),
    ("City Bikes", "bike", ("Old Town", "Harbour", "University", "Museum", "Station", "Riverside", "Market hall", "Park gate")),
    ("Music Room", "song", ("Morning tune", "Slow waltz", "Night drive", "Blue river", "Summer rain", "Paper moon", "First light", "Long road")),
    ("Pet Hotel", "guest", ("Biscuit", "Luna", "Pepper", "Mango", "Shadow", "Daisy", "Rocky", "Olive")),
    ("Space Log", "probe", ("Pathfinder", "Horizon", "Beacon", "Pioneer", "Lantern", "Comet", "Voyage", "Aurora")),
    ("Coffee Lab", "roast", ("Espresso", "Filter", "Cold brew", "Flat white", "Mocha", "Cortado", "Americano", "Macchiato")),
    ("Film Society", "film", ("Silent City", "The Orchard", "Two Rivers", "Winter Train", "Glass House", "Last Ferry", "North Wind", "Red Kite")),
    ("Fix It Shop", "repair", ("Toaster", "Bicycle", "Lamp", "Radio", "Kettle", "Chair", "Umbrella", "Clock")),
    ("Farm Box", "vegetable", ("Carrots", "Spinach", "Pumpkin", "Beetroot", "Leeks", "Radishes", "Kale", "Potatoes")),
    ("Study Hall", "course", ("Algebra", "Chemistry", "Latin", "Geography", "Drawing", "Statistics", "Biology", "Rhetoric")),
    ("Board Game Cafe", "game", ("Harvest", "Castle Run", "Deep Sea", "Night Market", "Sky Bridge", "Iron Road", "Fox Trail", "Star Map")),
    ("Print Studio", "poster", ("Skyline", "Botanica", "Lighthouse", "Geometry", "Still life", "Mountain", "Typeface", "Harvest moon")),
    ("Weather Desk", "station", ("Northfield", "Eastport", "Westhaven", "Southgate", "Hillcrest", "Lakeside", "Fairview", "Stonebridge")),
    ("Swim Team", "swimmer", ("Amira", "Jonas", "Keiko", "Mateo", "Nadia", "Oskar", "Priya", "Tomas")),
    ("Travel Desk", "trip", ("Lisbon", "Kyoto", "Reykjavik", "Quito", "Nairobi", "Oslo", "Hanoi", "Perth")),
    ("Garden Show", "stand", ("Roses", "Bonsai", "Orchids", "Tulips", "Herbs", "Cacti", "Dahlias", "Mosses")),
    ("Support Inbox", "ticket", ("Login fails", "Slow search", "Wrong invoice", "Lost parcel", "New address", "Broken link", "Missing file", "Late refund")),
    ("Tea House", "tea", ("Sencha", "Oolong", "Rooibos", "Earl Grey", "Chai", "Jasmine", "Peppermint", "Assam")),
    ("Art Class", "lesson", ("Watercolour", "Charcoal", "Linocut", "Collage", "Ceramics", "Ink wash", "Pastel", "Weaving")),
    ("Chess Club", "match", ("Opening night", "Spring cup", "Blitz round", "Team final", "Junior open", "City league", "Simul", "Rematch")),
    ("Night Sky", "object", ("Orion", "Andromeda", "Vega", "Saturn", "Pleiades", "Sirius", "Polaris", "Jupiter")),
)  # fmt: skip

# what the prompt says of the look, and the classes of the page and of its headline
LOOKS = (
    ("Keep it calm, with pale blue and dark text.", "bg-sky-50 text-slate-900", "text-sky-900"),
    ("Give it warm, earthy colours.", "bg-amber-50 text-stone-900", "text-amber-900"),
    ("A fresh green look, please.", "bg-emerald-50 text-slate-900", "text-emerald-900"),
    ("Make it dark, with light text.", "bg-slate-900 text-slate-50", "text-slate-50"),
    ("Plain black on white will do.", "bg-white text-black", "text-black"),
    ("Something playful in pink.", "bg-pink-50 text-slate-900", "text-pink-900"),
    ("Sober and grey, as for an office.", "bg-gray-100 text-gray-900", "text-gray-900"),
    ("A little violet would be nice.", "bg-violet-50 text-slate-900", "text-violet-900"),
    ("", "bg-white text-slate-900", "text-slate-900"),
)
OPENINGS = (
    "Build {what} for {title} as one React component.",
    "I need {what} for {title}, in a single React file.",
    "Please write a React component: {what} for {title}.",
    "Make {what} for a site called {title}. One file, React and Tailwind.",
    "{title} wants {what}. Write it in React with Tailwind CSS.",
    "Create {what} for {title} with React hooks and Tailwind.",
)
ENDINGS = (
    "",
    "It should also look right on a phone.",
    "No libraries besides React.",
    "Use buttons and labels that a screen reader understands.",
    "Keep the code short.",
    "Leave enough room between the parts.",
)

BUTTON = "rounded bg-slate-800 px-3 py-1 text-white"
CARD = "rounded border border-slate-400 p-3"
FIELD = "block rounded border border-slate-500 bg-white px-2 py-1 text-black"

_SHELL = """import { useState } from "react";

export default function App() {
@state@
  return (
    <main className="min-h-screen space-y-4 p-6 @page@">
      <h1 className="text-2xl font-bold @heading@">@title@</h1>
@body@
    </main>
  );
}
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """An app before it has a look: what a family fills in.

    Attributes:
        what: with its article, as the opening names it.
        wants: sentences of the prompt; they say all that is asked of the page.
        state: lines of the component before its return.
        body: its JSX below the headline.
        elements: tags that must occur.
        texts: seen at rest, beside the title.
        roles: (role, name) that stand there.
        steps: see `rewards/react/requirements.py`.
    """

    what: str
    wants: Sequence[str]
    state: str
    body: str
    elements: Sequence[str] = ()
    texts: Sequence[str] = ()
    roles: Sequence[tuple[str, str]] = ()
    steps: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class App:
    """A request, what a machine can check of it, and a component that meets it."""

    family: str
    prompt: str
    reference: Mapping[str, Any]
    source: str


@dataclass(slots=True)
class Subject:
    """What an app is about, drawn once for each."""

    rng: random.Random
    title: str = field(init=False)
    thing: str = field(init=False)
    _things: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.title, self.thing, things = self.rng.choice(SUBJECTS)
        self._things = self.rng.sample(things, len(things))

    def things(self, count: int) -> list[str]:
        """The first so many of its things, in this app's order."""
        return self._things[:count]

    def other(self) -> str:
        """One that `things` of up to seven leaves out."""
        return self._things[7]


Family = Callable[[Subject], Draft]


def make(name: str, family: Family, key: str) -> App:
    """The app that a family makes of a key, always the same one."""
    rng = random.Random(f"react_apps/{name}/{key}")
    subject = Subject(rng)
    draft = family(subject)
    words, page, heading = rng.choice(LOOKS)
    opening = rng.choice(OPENINGS).format(what=draft.what, title=subject.title)
    title = f'The headline says "{subject.title}".'
    elements = ["h1", *draft.elements]
    tags = f"Elements that must occur: {', '.join(elements)}."
    sentences = (opening, title, *draft.wants, tags, words, rng.choice(ENDINGS))
    roles = [{"role": "heading", "name": subject.title}]
    roles += [{"role": role, "name": called} for role, called in draft.roles]
    asked = {"texts": list(draft.texts), "roles": roles, "steps": list(draft.steps)}
    source = fill(
        _SHELL,
        state=_indented(draft.state, 2),
        page=page,
        heading=heading,
        title=subject.title,
        body=_indented(draft.body, 6),
    )
    return App(
        name,
        " ".join(sentence for sentence in sentences if sentence),
        {"elements": elements, "page": asked},
        source,
    )


def fill(template: str, **values: object) -> str:
    """`@name@` replaced by its value; lists as JavaScript has them."""
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        template = template.replace(f"@{name}@", text)
    return template


def clicks(*names: str, role: str = "button") -> list[dict[str, Any]]:
    """Actions that click these one after the other."""
    return [{"click": {"role": role, "name": name}} for name in names]


def fills(**values: str) -> list[dict[str, Any]]:
    """Actions that write into fields of these names; `_` stands for a blank."""
    return [
        {"fill": {"role": "textbox", "name": name.replace("_", " ")}, "with": value}
        for name, value in values.items()
    ]


def quoted(names: Sequence[str]) -> str:
    """A list as a sentence has it."""
    marked = [f'"{name}"' for name in names]
    return marked[0] if len(marked) == 1 else f"{', '.join(marked[:-1])} and {marked[-1]}"


def _indented(text: str, depth: int) -> str:
    return "\n".join(" " * depth + line if line else line for line in text.strip("\n").split("\n"))
