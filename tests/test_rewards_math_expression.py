"""Our grammar and exact arithmetic: what is read, where it stands, and what equals what."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.rewards.math.equality import equal
from botgrpo.rewards.math.exact import Function, rational, residue
from botgrpo.rewards.math.expression import parse
from botgrpo.rewards.math.tree import (
    Ambiguous,
    Budget,
    Collection,
    MathError,
    Name,
    Number,
    OverBudget,
    ParseError,
    Relation,
    Undecided,
    names,
    parts,
)


def tree(text: str):
    return parse(text, budget=Budget())


def value(text: str, **env):
    return rational(tree(text), env, Budget())


def same(left: str, right: str):
    return equal(tree(left), tree(right), Budget())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(((-9 - 5 - 0) - (4 + 3 + -5)) - ((3 * 4 * 5) * (7 - -7 * 4)))", -2116),
        ("2^3^2", 512),
        ("-2^2", -4),
        ("2**10", 1024),
        ("6/2*3", 9),
        (r"\frac12 + \frac{3}{4}", Fraction(5, 4)),
        (r"3\frac12", Fraction(7, 2)),
        (r"2\frac{3}{4} - 0.75", 2),
        ("1,234.5", Fraction(2469, 2)),
        (r"11,\! 111,\! 111,\! 100", 11111111100),
        (r"10\,000", 10000),
        ("52_8", 42),
        ("5! - 4!", 96),
        ("(2^3)!", 40320),
        (r"\binom{10}{3} + C(5,2) + P(5, 2)", 150),
        (r"\sum_{k=1}^{10} k^2", 385),
        (r"\prod_{k=1}^{5} k", 120),
        (r"\lfloor 7/2 \rfloor + \lceil 7/2 \rceil", 7),
        ("|3 - 10||2|", 14),
        (r"\gcd(84, 36) + \operatorname{lcm}(4, 6)", 24),
        (r"\log_2 8 + \log_{4} 8", Fraction(9, 2)),
        (r"\sqrt{144} + \sqrt[3]{27}", 15),
        ("20%", Fraction(1, 5)),
        ("7^{100} mod 13", 9),
        ("3² × 4 ÷ 6 − 1", 5),
        ("３ ＋ ４", 7),
        (r"\left( 3\, + 4 \right) \cdot \quad 2", 14),
    ],
)
def test_a_formula_has_the_value_worked_out_by_hand(text, expected):
    result = value(text)
    assert result == expected
    assert isinstance(result, int) == (Fraction(expected).denominator == 1)


def test_names_are_replaced_and_functions_applied():
    f = Function(("x",), tree("x^2 + 1"))
    assert value("3a + f(a - 1)", a=4, f=f) == 22
    assert names(tree(r"\sum_{i=1}^{n} i x_1 + f(y) + \pi")) == {"n", "x_{1}", "y"}


@pytest.mark.parametrize("text", ["1/2x", "2^n!", "n!!", "7 + 5 mod 3", r"\sin^{-1} x", "-7 mod 3"])
def test_what_readers_take_in_two_ways_is_refused_as_ambiguous(text):
    with pytest.raises(Ambiguous):
        tree(text)


@pytest.mark.parametrize(
    "text",
    ["(3-9) (5-15", "x -", "", "hello + 2", "3 4", "x2", "$5", r"\foo 3", "()", "a = ", "2 +* 3"],
)
def test_what_the_grammar_does_not_know_is_no_formula(text):
    with pytest.raises(ParseError):
        tree(text)


def test_a_pair_in_brackets_is_no_number_and_a_number_is_no_list():
    assert tree("(1,234)") == Collection("(", ")", (Number(1), Number(234)))
    assert tree("1,234") == Number(1234)
    assert tree("1, 234") == Collection("", "", (Number(1), Number(234)))


def test_a_congruence_takes_its_modulus_for_the_whole_chain():
    chain = tree(r"2^{10} = 30 \equiv 2 \pmod{7}")
    assert isinstance(chain, Relation)
    assert chain.signs == ("≡", "≡") and chain.modulus == Number(7)


def walk(expr):
    yield expr
    for part in parts(expr):
        yield from walk(part)


@pytest.mark.parametrize(
    "text",
    [
        r"  \frac{x+1}{2} = (3y - \sqrt{4z})^2 ",
        "−3 × (4 + ５) ≤ 2^x",
        r"\{1, 2\} \cup [0, 3)",
        r"a_{n+1} \equiv 1,000 \pmod{7}",
    ],
)
def test_the_place_of_every_part_holds_that_part(text):
    for node in walk(tree(text)):
        again = tree(text[node.start : node.end])
        assert again == node or isinstance(node, Relation), text[node.start : node.end]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (r"\frac12", "0.5", True),
        ("0.33", "1/3", False),
        (r"\sqrt{8}", r"2\sqrt2", True),
        (r"\sqrt2 + \sqrt3", r"\sqrt{10}", False),
        (r"\sqrt{5 + 2\sqrt6}", r"\sqrt2 + \sqrt3", True),
        (r"\frac{1}{\sqrt2 - 1}", r"1 + \sqrt2", True),
        (r"\sqrt[3]{2}\sqrt[6]{2}", r"\sqrt2", True),
        (r"\sin(\pi/3)", r"\frac{\sqrt3}{2}", True),
        (r"\pi", "3.14159", False),
        (r"\ln 8", r"3\ln 2", True),
        (r"\sqrt{-4}", "2i", True),
        ("(x+1)^2", "x^2 + 2x + 1", True),
        ("x^2 + 1", "x^2", False),
        (r"\frac{x^2-1}{x-1}", "x + 1", True),
        ("(1, 2)", "(2, 1)", False),
        (r"\{1, 2\}", "2, 1", True),
        (r"2 \pm \sqrt3", r"2 - \sqrt3, 2 + \sqrt3", True),
        (r"[0, \infty)", r"(0, \infty)", False),
        (r"(-\infty, 1) \cup (2, 3)", r"(2, 3) \cup (-\infty, 1)", True),
        ("2x + 4y - 3 = 0", "y = -x/2 + 3/4", True),
        ("x^2/4 + y^2/3 = 1", "x^2/16 + y^2/12 = 1", False),
        ("x = 3", "3", True),
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}", False),
        ("1/2^{99}", "1/2^{98}", False),
        ("10%", "10", False),
        ("1/0", "2", None),
    ],
)
def test_two_answers_are_equal_exactly_where_their_values_are(left, right, expected):
    assert same(left, right) is expected
    assert same(right, left) is expected


@st.composite
def formulas(draw, depth=3):
    """(text, value) of a random formula over small whole numbers."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        n = draw(st.integers(-99, 99))
        return (f"({n})" if n < 0 else str(n)), Fraction(n)
    (a, x), (b, y) = draw(formulas(depth - 1)), draw(formulas(depth - 1))
    kind = draw(st.sampled_from("+-*/f"))
    if kind in "/f" and y == 0:
        kind = "*"
    if kind == "f":
        return rf"\frac{{{a}}}{{{b}}}", x / y
    result = {"+": x + y, "-": x - y, "*": x * y, "/": x / y if y else None}[kind]
    space = draw(st.sampled_from(["", " "]))
    return f"({a}){space}{kind}{space}({b})", result


@settings(deadline=None)  # a busy machine is no failure
@given(formulas())
def test_random_arithmetic_has_the_value_of_fractions(case):
    text, expected = case
    assert value(text) == expected


@settings(deadline=None)
@given(formulas(), st.integers(2, 97))
def test_a_residue_is_the_value_modulo_m(case, modulus):
    text, expected = case
    try:
        found = residue(tree(text), modulus, {}, Budget())
    except Undecided:
        return
    assert (expected - found).numerator % modulus == 0


@settings(deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=5), st.integers(-3, 3))
def test_a_polynomial_equals_itself_rewritten_and_not_its_neighbour(coefficients, shift):
    terms = [f"({c}) x^{k}" for k, c in enumerate(coefficients)]
    plain = " + ".join(terms)
    nested = "0"
    for c in reversed(coefficients):
        nested = f"({nested}) x + ({c})"
    assert same(plain, nested) is True
    assert same(f"{plain} + {shift}", plain) is (shift == 0)


@pytest.mark.parametrize(
    "text",
    [
        "9^{9^{9^9}}",
        "((9^9)^9999)^9999",
        "(((9!)!)!)!",
        "99999999!",
        r"\sum_{k=1}^{10^9} k",
        r"\binom{10^9}{5 \cdot 10^8}",
        r"\prod_{k=1}^{9999} k^k",
        "7^{7^{7^{7}}} mod 10",
    ],
)
def test_towers_are_refused_by_counted_work(text):
    budget = Budget()
    with pytest.raises(OverBudget):
        rational(tree(text), {}, budget)
    assert budget.used <= budget.operations + 1


@pytest.mark.parametrize(
    "text",
    ["(" * 5000, r"\sqrt" * 3000 + "2", "-" * 5000 + "1", "2^" * 3000, "1 " * 9000, "9" * 5000],
)
def test_deep_and_long_texts_are_refused_without_recursion(text):
    with pytest.raises(MathError):
        tree(text)


def test_a_function_that_calls_itself_ends():
    loop = Function(("x",), tree("f(x) + x"))
    with pytest.raises(OverBudget):
        rational(tree("f(2)"), {"f": loop}, Budget())


@settings(deadline=None)
@given(st.text(alphabet="0123456789+-*/^=(){}[]|!,.$\\ abfxyz\n≡%_&sqrtlogmod²√∞", max_size=80))
def test_any_text_is_read_or_refused_within_the_budget(text):
    budget = Budget(2_000)
    try:
        found = parse(text, budget=budget)
        assert 0 <= found.start <= found.end <= len(text)
        equal(found, found, budget)
    except MathError as error:
        assert str(error)
    assert budget.used <= budget.operations + 1


def test_nothing_that_looks_like_code_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("__import__('os').system('touch x')", "open('x','w')", r"\pi + open('x','w')"):
        with pytest.raises(MathError):
            rational(tree(text), {}, Budget())
    assert not list(tmp_path.iterdir())


def test_a_name_alone_has_no_value():
    assert tree("x_{10}") == Name("x_{10}")
    with pytest.raises(Undecided, match="no value for x"):
        value("x + 1")
