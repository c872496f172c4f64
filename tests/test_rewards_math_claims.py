"""Which claims of a step are refuted, verified or left alone; what the reward pays for it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.rewards import Rollout, local_of
from botgrpo.rewards.math.steps_sympy import StepsSympy
from botgrpo.rewards.math.verify import STEP_OPERATIONS, verify
from botgrpo.rewards.validate import validate
from botgrpo.sandbox.errors import ConfigError


def values(completion: str) -> list[int]:
    return [verdict.value for verdict in verify(completion)]


def refuted(completion: str) -> list[str]:
    return [
        completion[c.start : c.end] for v in verify(completion) for c in v.claims if c.value < 0
    ]


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("So 17 * 12 = 214.", "17 * 12 = 214"),
        ("Let's calculate A = (-9 - 5 - 0) = (-9 - 5) = -13.", "(-9 - 5) = -13"),
        (r"Thus $7/4 + 14/14 = 7/4 + 1 = 4$, which equals 4.", "7/4 + 1 = 4"),
        (r"$\frac{-18 \times 5}{7 \times -6} = \frac{90}{-42}$", None),
        (r"\begin{align*} x &= 2+3 \\ &= 6 \end{align*}", "2+3 \\\\ &= 6"),
        ("It costs $5, so 3 of them cost 3 * $5 = $16.", "3 * $5 = $16"),
        ("12 apples + 5 apples = 18 apples", "12 apples + 5 apples = 18"),
        (r"$4 \text{ cm} \times 6 \text{ cm} = 25 \text{ cm}^2$", r"\times 6 \text{ cm} = 25"),
        ("The area is 4*6 = 25 cm^2 = 25 square cm", "4*6 = 25"),
        (r"$\operatorname{lcm}(4, 6) = 24$", r"\operatorname{lcm}(4, 6) = 24"),
        (r"$\text{Area} = 5 \times 3 = 16$", r"5 \times 3 = 16"),
        ("20% of 50 = 11", "20% of 50 = 11"),
        ("Then 34/100 simplifies to 17/51.", "34/100 simplifies to 17/51"),
        ("The value of 5^2 is 26.", "5^2 is 26"),
        ("80,000 words / 250 words = 3200", "80,000 words / 250 words = 3200"),
        (r"$2^{10} \equiv 3 \pmod{7}$", r"2^{10} \equiv 3 \pmod{7"),
        ("10^(10^(10)) mod 7 = 3", "10^(10^(10)) mod 7 = 3"),
        (r"$\binom{10}{3} = 130$", r"\binom{10}{3} = 130"),
        (r"$\sum_{k=1}^{10} k^2 = 384$", r"\sum_{k=1}^{10} k^2 = 384"),
        (r"$\sqrt{50} = 2\sqrt{5}$", r"\sqrt{50} = 2\sqrt{5}"),
        (r"$\sin(30) = 0.9$", r"\sin(30) = 0.9"),
        (r"$\sqrt{2} \approx 1.7$", r"\sqrt{2} \approx 1.7"),
        ("Since 3 * 5 < 2 * 7, we stop.", "3 * 5 < 2 * 7"),
        ("100 is a multiple of 3", "100 is a multiple of 3"),
        ("Note that 7 divides 100.", "7 divides 100"),
        ("But 91 is prime.", "91 is prime"),
        ("The gcd of 84 and 36 is 6.", "gcd of 84 and 36 is 6"),
        ("The remainder when 7^4 is divided by 10 is 3.", None),
        ("From $x^2 - 5x + 6 = 0$ we get $x = 4$ or $x = 3$.", "x = 4"),
        ("2x + 3 = 11\n2x = 6\nx = 3", "2x = 6"),
        ("f(x) = x^2 + 1, so f(3) = 3^2 + 1 = 11", "3^2 + 1 = 11"),
        ("f(x) = x^2 + 1, so f(3) = 5 + 6", "f(3) = 5 + 6"),
        ("A = 12, B = 5. Then A + B = 12 + 6 = 18", "A + B = 12 + 6"),
        ("We have $(x+1)^2 + 1 = x^2 + 2x + 1$.", "(x+1)^2 + 1 = x^2 + 2x + 1"),
        (r"$3x^2 + x = 3(x^2 + x/3) = 3(x^2 + x/3 + 1/9) - x$", None),
        (r"In all, $0.1 + 0.2 = 0.4$", "0.1 + 0.2 = 0.4"),
    ],
)
def test_a_false_claim_is_refuted_at_its_place(text, claim):
    found = refuted(text)
    assert found, text
    if claim is not None:
        assert any(claim in one for one in found), found
    assert values(text) == [-1]


@pytest.mark.parametrize(
    "text",
    [
        "So 17 * 12 = 204.",
        r"$\frac{2}{3} = 0.667$",
        "7 / 2 = 3 with a remainder of 1",
        "304*(2/6) = 101 people",
        "Suppose that 7 * 8 = 54.",
        "If 7 * 8 = 54, then we are done.",
        "It is not true that 7 * 8 = 54.",
        "7 * 8 = 54 is false.",
        "Is 7 * 8 = 54?",
        "So 7 * 8 = 54. Wait, that is wrong, 7 * 8 = 56.",
        "half of 8 + 2 = 6",
        r"$\sin(30) = \frac{1}{2}$, $\cos 60^\circ = 0.5$ and $\sin(\pi/6) = 0.5$",
        r"$\log 100 = 2$",
        "$x=5$ $y=6$. Then $x + 1 = 5 + 1$",
        "So 7 * 8 = 54. Let me recompute: 7 * 8 = 56.",
        "The angle is atan(1/1) = π/4 radians.",
        "This gives us $294$ which simplifies to $-\\frac{150}{98}$.",
        "The sum of squares from 21^2 to 40^2 is 30151.",
        "Equating them, (1/2) * b * 10 = (1/2) * b * 12 = (1/2) * b * 15.",
        "3b = 144\n\nPlugging in the values a = 10, b = 12.",
        "the product of 3 and 4 * 2 = 24",
        "2 hours + 30 minutes = 150 minutes",
        r"$2 \text{ m} + 50 \text{ cm} = 250 \text{ cm}$",
        "The area is 4*6 = 24 cm^2, or 24 cm² as written.",
        "5/20 * 100 = 25%",
        r"$3\frac{1}{2} \cdot 2 = 3$",
        "-2^2 = 4",
        "Working modulo 10, 8 + 8 = 6.",
        "3 = 8",
        "x = 2 or x = 3. Then 2x = 6 in the second case.",
        r"$x = 0.\overline{7}$, so $10x = 7.\overline{7}$",
        "The sum is 1 + 2 + ... + 100 = 5050",
        "Solve 2x + 3 = 5x - 7 and y = 2 for both.",
        "When x = 1, y = 56. When x = 2, y = 28.",
        "S(0) = 3, and f'(x) = 1 + e^x.",
        "Step 2: 3:4 = 6:8",
        "x/3 = 4 - 3x + 2",
        "11 = 10 # 1 + 2 = 14 # 2",
        r"$(-1)^{2n} = 1$ and $\sqrt{x^2} = x$",
        "17 = 3 (mod 7)",
        "$\\sin 2x = 2 \\sin x$",
        "2 is the only even prime, and 9 is not prime.",
        "We find 3/4Papillon = 12 pounds.",
    ],
)
def test_what_is_no_false_claim_is_not_refuted(text):
    assert refuted(text) == []


def test_a_retraction_may_open_the_next_step():
    assert values("So 7 * 8 = 54.\n\nWait, I made a mistake: 7 * 8 = 56.") == [0, 1]
    assert values("So 7 * 8 = 54.\n\nNext, 3 * 12 = 36.") == [-1, 1]


def test_what_follows_a_step_changes_it_only_by_a_retraction():
    first = "<step 1>So 7 * 8 = 54.</step 1>"
    for more in ("", "<step 2>x = 54</step 2>", "<step 2>7 * 9 = 63</step 2><final>3</final>"):
        assert values(first + more)[0] == -1


@pytest.mark.parametrize(
    "spelling", ["17*12=214", "17 \\cdot 12 = 214", "$17 \\times 12 = 214$", "17 × 12 = 214"]
)
def test_the_spelling_of_a_claim_does_not_change_its_verdict(spelling):
    assert values(spelling) == [-1]
    assert values(spelling.replace("214", "204")) == [1]


@pytest.mark.parametrize("name", ["x", "t", "n", "y_1", r"\alpha", "p"])
@pytest.mark.parametrize("order", ["2{0} + 3 = 11", "3 + 2{0} = 11", r"\left(2{0}\right)+3 = 11"])
def test_names_order_and_brackets_do_not_change_a_verdict(name, order):
    text = "$" + order.format(name) + "$\n${0} = {1}$"
    assert values(text.format(name, 4)) == [1]
    assert values(text.format(name, 5)) == [-1]


def test_a_wrong_value_is_charged_once_where_it_is_computed():
    text = "A = 3 * 4 = 13\n\nB = 2 * 5 = 10\n\nA + B = 13 + 10 = 23"
    assert values(text) == [-1, 1, 1]


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.integers(0, 999), st.integers(1, 999), st.sampled_from("+-*"), st.integers(0, 9), st.data()
)
def test_a_changed_digit_is_refuted_and_the_true_value_never(a, b, sign, digit, data):
    result = {"+": a + b, "-": a - b, "*": a * b}[sign]
    true, said = f"Therefore {a} {sign} {b} = {result}.", str(result)
    assert refuted(true) == []
    places = [i for i, c in enumerate(said) if c.isdigit() and c != str(digit)]
    if places:
        place = data.draw(st.sampled_from(places))
        other = said[:place] + str(digit) + said[place + 1 :]
        changed = f"Therefore {a} {sign} {b} = {other}."
        expected = [] if int(other) == result else [f"{a} {sign} {b} = {other}"]
        assert refuted(changed) == expected


@settings(deadline=None)
@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 9))
def test_true_identities_are_never_refuted(a, b, c):
    for text in (
        f"Expanding, $(x + ({a}))(x + ({b})) = x^2 + ({a + b})x + ({a * b})$.",
        f"${c}x^2 + ({a})x = x({c}x + ({a})) = {c}x(x + \\frac{{{a}}}{{{c}}})$",
        f"From $x^2 + ({-a - b})x + ({a * b}) = 0$ we get $x = {a}$ or $x = {b}$.",
        f"${c}x + ({a}) = {b}$\n${c}x = {b - a}$\n$x = \\frac{{{b - a}}}{{{c}}}$",
        f"$\\sqrt{{{c * c * 2}}} = {c}\\sqrt{{2}}$.",
        f"${c}^{{40}} \\equiv {pow(c, 40, 7)} \\pmod{{7}}$",
    ):
        assert refuted(text) == [], text


_PIECES = (
    *("= ", "2", "17", "x", " + ", "*", "(", ")", "{", "}", "^", "\\frac", "$", "is ", "wait "),
    *("\n", "\n\n", "<step 1>", "</step 1>", ", ", "7! ", "mod ", "\\pmod{5}", "if ", "≡", "漢"),
    " apples ",
)


@settings(deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=60))
def test_any_text_gets_the_same_bounded_verdicts_at_places_inside_their_steps(pieces):
    text = "".join(pieces)
    verdicts = verify(text)
    assert verdicts == verify(text)
    for verdict in verdicts:
        assert verdict.operations <= STEP_OPERATIONS + 1
        for claim in verdict.claims:
            assert verdict.step.start <= claim.start < claim.end <= verdict.step.end
            assert text[claim.start : claim.end] == text[claim.start : claim.end].strip()


@pytest.mark.parametrize(
    "text",
    [
        "So 9^{9^{9^{9}}} = 3.",
        "((((9!)!)!)!)! = 7",
        "$\\sum_{k=1}^{10^9} k = 5$",
        "f(x) = f(x) + x, so f(2) = 3 + 4",
        "1 + " * 200_000 + "1 = 3",
        "(" * 100_000 + "1 = 2",
        "= " * 300_000,
        "is " * 300_000,
    ],
)
def test_hostile_texts_are_undecided_within_the_budget(text):
    (verdict,) = verify(text)
    assert verdict.value == 0
    assert verdict.operations <= STEP_OPERATIONS + 1


def score(completion: str, reward: StepsSympy | None = None, **tokens):
    rollout = Rollout("r", "g", "p", completion, **tokens)
    (result,) = asyncio.run((reward or StepsSympy()).score([rollout]))
    return rollout, result


def test_the_reward_keeps_its_promises_on_gold_and_tampered_solutions():
    checks = asyncio.run(validate(StepsSympy()))
    assert [check for check in checks if not check.ok] == []


def test_spans_are_steps_with_the_claim_and_the_evidence():
    text = "<step 1>So 7 * 8 = 54.</step 1><step 2>Now 3 * 12 = 36.</step 2><step 3>Done.</step 3>"
    _, result = score(text)
    assert [(text[s.start : s.end], s.value) for s in result.spans] == [
        ("So 7 * 8 = 54.", -1.0),
        ("Now 3 * 12 = 36.", 1.0),
        ("Done.", 0.0),
    ]
    assert result.spans[0].label == "refuted arithmetic: 7 * 8 = 54 (left is 56, right is 54)"
    assert result.spans[1].label == "verified arithmetic: 3 * 12 = 36 (both are 36)"
    assert (result.outcome, result.verdict) == (-1.0, "refuted")
    assert result.metrics["refuted"] == 1 and result.metrics["steps"] == 3


def test_a_text_without_steps_or_claims_is_not_charged():
    assert score("")[1].verdict == "no_steps"
    assert score("I would try small cases.")[1].verdict == "undecided"


def tokens_of(text: str) -> dict:
    spans = tuple((i, i + 1) for i in range(len(text)))
    return {"token_ids": tuple(range(len(spans))), "token_spans": spans}


def paid(text: str, reward: StepsSympy) -> float:
    rollout, result = score(text, reward, **tokens_of(text))
    return max(local_of(reward, rollout, result) or (0.0,))


def test_tokens_of_a_refuted_step_are_paid_minus_one_and_a_verified_one_nothing():
    text = "So 7 * 8 = 54.\n\nNow 3 * 12 = 36."
    rollout, result = score(text, **tokens_of(text))
    local = local_of(StepsSympy(), rollout, result)
    assert local is not None and local[0] == -1.0 and local[-1] == 0.0


def test_padding_with_trivial_or_repeated_truths_earns_nothing():
    padding = "2 + 2 = 4\n\nx = x\n\n7 = 7\n\n3 * 3 = 9\n\n5 ≡ 5 (mod 7)\n\n3 is odd."
    assert set(values(padding)) == {0}
    assert values("3 * 12 = 36\n\n3 * 12 = 36\n\n3*12=36") == [1, 0, 0]
    work = "Now 3 * 12 = 36."
    generous = StepsSympy(verified=0.1)
    assert paid(work, generous) == pytest.approx(0.1)
    assert paid(f"{work}\n\n{padding}", generous) <= 0.1 / 7 + 1e-9
    assert paid(f"{work}\n\n{padding}", StepsSympy()) == 0.0


def test_however_many_steps_are_verified_they_never_earn_more_than_one():
    steps = [f"{n} * {n + 1} = {n * (n + 1)}" for n in range(11, 31)]
    reward = StepsSympy(verified=0.1)
    assert values("\n\n".join(steps)) == [1] * 20
    assert 20 * paid("\n\n".join(steps), reward) == pytest.approx(0.1)


def test_a_weight_outside_its_range_is_refused():
    with pytest.raises(ConfigError, match="allowed: 0 to 1"):
        StepsSympy(verified=2.0)
