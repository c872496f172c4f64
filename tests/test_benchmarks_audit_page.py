"""The audit's page and command: safe with hostile text, sentences first, nothing half done."""

from __future__ import annotations

import json
import re

import pytest

from botgrpo.benchmarks.audit.card import audit
from botgrpo.benchmarks.audit.evidence import evidence
from botgrpo.benchmarks.audit.labels import Fault, Labelled, labelled_to_json
from botgrpo.benchmarks.audit.page import number, page_html
from botgrpo.benchmarks.cli import main
from botgrpo.rewards import RewardSpec, Rollout, Score, Span

EVIL = '</pre><script>alert(1)</script><img src=x onerror=alert(2)><svg onload="x">\u202e'
REWARD = '''
from botgrpo.rewards import RewardSpec, Score, Span

class Vowels:
    """Pays for a short text with ee; blames each a."""

    spec = RewardSpec("test.vowels", "1", (0.0, 1.0), (-1.0, 0.0))

    async def score(self, rollouts):
        return [
            Score(r.id, float("ee" in r.completion and len(r.completion) < 9), spans=tuple(
                Span(i, i + 1, -1.0, "a: " + r.completion)
                for i, c in enumerate(r.completion) if c == "a"))
            for r in rollouts
        ]
'''


class Evil:
    spec = RewardSpec(f"evil.{EVIL}", "1", (0.0, 1.0), (-1.0, 0.0), summary=EVIL)

    async def score(self, rollouts):
        return [
            Score(r.id, float(i % 2), EVIL, EVIL,
                  (Span(0, min(1, len(r.completion)), -1.0, EVIL),))
            for i, r in enumerate(rollouts)
        ]  # fmt: skip


def hostile_page(**options) -> str:
    items = [
        Labelled(
            Rollout(f"{p}/{k}{EVIL}", f"g{p}", EVIL, EVIL, token_spans=((0, 3), (3, len(EVIL)))),
            float(k),
            (Fault(0, 3, EVIL),),
        )
        for p in range(8)
        for k in (1, 0)
    ]
    cards = audit({f"evil{EVIL}": Evil(), "again": Evil()}, items, 2)
    facts = {"file": EVIL, "judges": [EVIL], "rollouts": 16, "prompts": 8, "passes": 2,
             "labelled_outcomes": 16, "labelled_places": 16, "with_tokens": 16}  # fmt: skip
    return page_html(cards, {c.name: evidence(c.seen) for c in cards}, facts, **options)


def test_what_a_model_or_a_reward_wrote_never_becomes_a_tag():
    html = hostile_page()
    assert "alert(1)" in html  # it is shown
    assert not re.search(r"<(script|img)\b", html, re.I)
    assert not re.search(r"<[^>]*\son\w+\s*=", html, re.I)
    assert "\u202e" not in html
    assert "default-src 'none'" in html and "script-src" not in html
    assert not re.search(r"(src|href)=[\"']?(https?:|//)", html)


def test_the_sentence_comes_first_or_last():
    first, last = hostile_page(), hostile_page(verdict_first=False)
    figures = 'id="stability"'
    assert first.index('id="verdict"') < first.index(figures)
    assert last.index('id="verdict"') > last.index(figures)


def test_a_reward_on_another_scale_contradicts_no_label_at_its_best():
    class Penalty:
        spec = RewardSpec("test.penalty", "1", (-2.0, 0.0))

        async def score(self, rollouts):
            return [Score(r.id, -2.0 if r.id.endswith("bad") else 0.0) for r in rollouts]

    items = [
        Labelled(Rollout(f"{p}/{name}", f"g{p}", "p", "t"), label)
        for p in range(3)
        for name, label in (("good", 1.0), ("bad", 1.0))
    ]
    (card,) = audit({"p": Penalty()}, items, 1)
    found = evidence(card.seen)
    assert [e.id for e in found] == ["0/bad", "1/bad", "2/bad"]
    assert found[0].why == "outcome -2, labelled 1"


def test_numbers_are_short_and_have_a_real_minus():
    assert [number(v) for v in (0.0, -0.5, 0.004, 123.4, 12345.6)] == [
        "0.00", "−0.50", "0.004", "123", "12,346"]  # fmt: skip
    assert number(0.0123, "s") == "12.30\N{NARROW NO-BREAK SPACE}ms"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "vowels.py").write_text(REWARD)
    lines = []
    for p in range(8):
        for k, text in enumerate(("see it", "a cat", "a bee", "sky")):
            tokens = tuple((i, i + 1) for i in range(len(text)))
            rollout = Rollout(f"{p}/{k}", f"g{p}", f"prompt {p}", text, token_spans=tokens)
            faults = (Fault(0, 1, "article"),) if text.startswith("a ") else ()
            lines.append(labelled_to_json(Labelled(rollout, float("ee" in text), faults)))
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path, path, f"{tmp_path}/vowels.py:Vowels"


def test_rewards_are_told_apart_side_by_side_from_their_nested_names(files, capsys):
    folder, path, vowels = files
    noisy = f"noise.gaussian('{vowels}', sigma=0.5)"
    out = folder / "card"
    call = ["audit", "--reward", vowels, "--reward", noisy, "--in", str(path), "--repeat", "3"]
    assert main([*call, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "Vowels: no alarm" in said and "think twice; it does not repeat its token values" in said
    card = json.loads((out / "audit.json").read_text())
    clean, noise = card["rewards"]
    assert clean["figures"]["youden_j"]["value"] == 1.0
    assert noise["figures"]["local_icc"]["against_first"]["word"] == "lower"
    assert noise["figures"]["youden_j"]["against_first"]["word"] == "not separated"
    html = (out / "audit.html").read_text()
    assert "In a sentence" in html and "not separated" in html


def test_an_earlier_audit_shows_what_has_drifted(files, capsys):
    folder, path, vowels = files
    call = ["audit", "--reward", vowels, "--in", str(path), "--repeat", "1"]
    assert main([*call, "--out", str(folder / "a")]) == 0
    old = json.loads((folder / "a" / "audit.json").read_text())
    drift = ["--since", str(folder / "a"), "--out", str(folder / "b")]
    assert main([*call, *drift]) == 0
    new = json.loads((folder / "b" / "audit.json").read_text())["rewards"][0]
    assert new["figures"]["drift_since"]["value"] == 0.0
    old["rewards"][0]["outcomes"] = {k: v + 0.5 for k, v in new["outcomes"].items()}
    (folder / "a" / "audit.json").write_text(json.dumps(old))
    assert main([*call, *drift]) == 0
    assert "has drifted since the earlier audit" in capsys.readouterr().out
    for text, why in (("[]", "no audit's"), ("{", "no audit's")):
        (folder / "a" / "audit.json").write_text(text)
        assert main([*call, *drift]) == 2 and why in capsys.readouterr().err
    assert main([*call, "--since", str(folder / "c"), "--out", str(folder / "d")]) == 2


def test_a_wrong_call_ends_with_status_2_and_writes_no_card(files, capsys):
    folder, path, vowels = files
    out = folder / "card"
    for call, why in (
        (["--reward", "react.compil"], "Did you mean react.compile"),
        (["--reward", vowels, "--reward", vowels], "twice"),
        (["--reward", vowels, "--repeat", "0"], "1 or more"),
    ):
        assert main(["audit", *call, "--in", str(path), "--out", str(out)]) == 2
        assert why in capsys.readouterr().err
    record = json.loads(path.read_text().splitlines()[0])
    record["labels"]["spans"] = [{"start": 0, "end": 70}]
    path.write_text(json.dumps(record) + "\n")
    assert main(["audit", "--reward", vowels, "--in", str(path), "--out", str(out)]) == 2
    assert "line 1" in capsys.readouterr().err
    path.write_text("")
    assert main(["audit", "--reward", vowels, "--in", str(path), "--out", str(out)]) == 2
    assert not (out / "audit.json").exists()
