from __future__ import annotations

import asyncio

import pytest

from botgrpo.rewards import Rollout
from botgrpo.rewards.react.form import ReactForm
from botgrpo.rewards.validate import validate


def test_the_form_passes_its_own_examples():
    checks = asyncio.run(validate(ReactForm()))
    assert [c.name for c in checks if not c.ok] == []


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("", "no_code"),
        ("export default () => null", "no_code"),
        ("```tsx\nexport default function (((\n```", "ok"),
        ("```python\nexport default\n```", "no_code"),
        ("~~~~jsx\nexport default 1\n~~~~", "ok"),
        ("```tsx\nexport default 1", "unclosed"),
    ],
)
def test_only_the_look_of_an_answer_counts(text, verdict):
    (score,) = asyncio.run(ReactForm().score([Rollout("r", "g", "p", text)]))
    assert score.verdict == verdict and score.outcome == float(verdict == "ok")
