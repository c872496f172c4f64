"""Gold and tampered answers for `react.visual`: what `validate` runs."""

from __future__ import annotations

from collections.abc import Sequence

from botgrpo.rewards.base import Example, Rollout

_SHOPPING = """import { useState } from "react";

export default function Shopping() {
  const [items, setItems] = useState([]);
  const [text, setText] = useState("");
  const add = () => {
    setItems([...items, text]);
    setText("");
  };
  return (
    <main className="p-8 bg-white text-gray-900">
      <h1 className="text-2xl font-bold">Shopping list 🤨</h1>
      <input aria-label="Item" value={text} onChange={(event) => setText(event.target.value)} />
      <button className="ml-2 px-4 py-1 bg-blue-700 text-white" onClick={add}>Add</button>
      {items.length ? null : <p>Nothing yet</p>}
      <ul>{items.map((item) => <li key={item}>{item}</li>)}</ul>
    </main>
  );
}
"""
_ASKED = {
    "elements": ["h1", "input", "ul"],
    "page": {
        "texts": ["Shopping list"],
        "roles": [{"role": "button", "name": "Add"}],
        "steps": [
            {
                "do": [
                    {"fill": {"role": "textbox", "name": "Item"}, "with": "milk"},
                    {"click": {"role": "button", "name": "Add"}},
                ],
                "then": {"texts": ["milk"], "gone": ["Nothing yet"]},
            }
        ],
    },
}


def visual_examples() -> Sequence[Example]:
    """A page without fault, and it tampered with in one place each."""
    h1 = '<h1 className="text-2xl font-bold">'
    return (
        Example(_rollout("gold", _SHOPPING), (1.0, 1.0), "ok"),
        _worse("pale", "bg-blue-700", "bg-blue-200", "contrast", "bg-blue-200"),
        _worse("no-name", ' aria-label="Item"', "", "required", "<input"),
        _worse("hidden-title", "text-2xl", "text-white", "required", "text-white"),
        _worse("tiny", h1, "<h1 style={{ fontSize: 6 }}>", "text", "fontSize: 6"),
        _worse("wide", h1, "<h1 style={{ width: 2000 }}>", "overflow", "width: 2000"),
        _worse("deaf", " onClick={add}", "", "required"),
        _worse("no-list", "</ul>", "</ol>", "required", old_too=("<ul>", "<ol>")),
        _none("undefined", "{items.length", "{missing.length", "runtime_error"),
        _none("nothing-shown", "<main", "<main hidden", "blank"),
        _none("unclosed-tag", "</h1>", "</h2>", "syntax"),
        Example(Rollout("prose", "g", "p", "I would use a list."), (0, 0), "no_code", gold=False),
    )


def _worse(
    name: str,
    old: str,
    new: str,
    verdict: str,
    blames: str | None = None,
    old_too: tuple[str, str] | None = None,
) -> Example:
    code = _SHOPPING.replace(old, new)
    if old_too:
        code = code.replace(*old_too)
    assert code != _SHOPPING
    return Example(_rollout(name, code), (0.2, 0.99), verdict, blames, gold=False)


def _none(name: str, old: str, new: str, verdict: str) -> Example:
    code = _SHOPPING.replace(old, new)
    assert code != _SHOPPING
    return Example(_rollout(name, code), (0.0, 0.0), verdict, gold=False)


def _rollout(name: str, code: str) -> Rollout:
    completion = f"Here it is:\n\n```tsx\n{code}```\n"
    return Rollout(name, "examples", "Write a shopping list.", completion, _ASKED)
