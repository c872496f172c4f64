from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.rewards import Rollout, build
from botgrpo.rewards.local import check_score
from botgrpo.rewards.math.answer import MathAnswer
from botgrpo.rewards.math.answer_expression import judge_expression
from botgrpo.rewards.math.integer import judge_integer
from botgrpo.rewards.math.verdict import Judged
from botgrpo.rewards.records import rollout_to_json
from botgrpo.rewards.validate import validate
from botgrpo.sandbox.errors import ConfigError

CASES = Path(os.environ.get("BOTGRPO_CASES") or Path(__file__).parents[2] / "shared" / "cases")
ROOT = Path(__file__).parents[1]


class Silent:
    """Stands for math-verify where it must not be needed, or records what it was asked."""

    def __init__(self, judged: Judged | None = None) -> None:
        self.judged = judged
        self.asked = []

    async def judge(self, text, accepted):
        self.asked.append((text, tuple(accepted)))
        assert self.judged is not None, f"asked about {text!r}"
        return self.judged


def score(completion, reference=None, library=None, **fields):
    reward = MathAnswer(library or Silent())
    rollout = Rollout("r", "g", "p", completion, reference or {"accepted": [204]})
    (judged,) = asyncio.run(reward.score([rollout]))
    check_score("math.answer", reward.spec, rollout, judged)
    return judged


def expression(*accepted):
    return {"accepted": list(accepted), "kind": "expression"}


def cases():
    path = CASES / "math_answers.jsonl"
    if not path.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"no shared cases at {path}"))]
    lines = path.read_text(encoding="utf-8").splitlines()
    return [pytest.param(case, id=case["id"]) for case in map(json.loads, lines)]


@pytest.mark.parametrize("case", cases())
def test_shared_cases_get_their_verdict(case):
    reference = {key: case[key] for key in ("accepted", "kind") if key in case}
    judged = score(case["completion"], reference)
    assert judged.verdict == case["verdict"]
    assert judged.outcome == float(case["verdict"] == "correct")


def test_the_reward_accepts_its_gold_and_refuses_what_was_tampered_with():
    checks = asyncio.run(validate(build("math.answer")))
    assert [check for check in checks if not check.ok] == [] and len(checks) >= 9


@pytest.mark.parametrize(
    "text",
    ["204", "0204", "+204", "204.", "204.0", "204.000", "２０４", "٢٠٤", "𝟐𝟎𝟒", "2٠4", " 204 ",
     "$204$", "\\(204\\)", "\\text{204}", "\\mathbf{204}", "\\boxed{204}", "{204}", "(204)",
     "**204**",
     "\\left(204\\right)", "204^\\circ", "204^{\\circ}", "204°", "204 degrees", "204\\text{ cm}^2",
     "204\\text{ square units}", "m+n = 204", "\\angle ABC = 204^\\circ", "100a + b = 204",
     "N \\equiv 204 \\pmod{1000}", "204 \\pmod{1000}", "204 (mod 1000)", "The answer is 204.",
     "Answer: \\textbf{204}", "\\,204\\,", "\\$204", "\\displaystyle 204", "2\u200b04",
     "0" * 200 + "204"],
)  # fmt: skip
def test_an_integer_is_read_in_every_dress(text):
    assert judge_integer(text, [204]).verdict == "correct"
    assert judge_integer(text, [205]).verdict == "wrong"


@pytest.mark.parametrize(
    "text",
    ["64+37", "102 \\cdot 2", "408/2", "\\frac{408}{2}", "2.04 \\times 10^2", "2.04e2", "2^{5}",
     "204.01", "204.5", "1000", "20400", "-1", "−7", "-204", "20,400", "1 000", "11,\\!111", "2,04",
     "0,204", "20 4", "1, 2", "203=204", "x=203=204", "x \\ne 204", "x <= 204", "x \\approx 204",
     "204 \\pmod{7}", "204 or 205", "204m", "ways204sue", "2 hundred", "2\\text{ dozen}", "204\\%",
     "204!", "0xCC", "2_04", "²", "½", "nan", "inf", "None", "two hundred four", "\\pi", "?",
     "204; import os", "1" * 5000, "0" * 2000, "x" * 100_000],
)  # fmt: skip
def test_what_is_no_integer_from_0_to_999_is_invalid_and_not_wrong(text):
    judged = judge_integer(text, [204, 20400, 1000, 7, 0])
    assert judged.verdict == "invalid" and judged.reason and judged.scored


@pytest.mark.parametrize("text", ["", " ", "$$", "\\text{}", "{}", "\\,"])
def test_an_empty_answer_is_unparsed(text):
    assert judge_integer(text, [204]).verdict == "unparsed"
    assert judge_expression(text, ["204"]).verdict == "unparsed"


@given(st.integers(0, 999), st.integers(0, 5), st.sampled_from(["", ".", ".0", "^\\circ"]))
def test_every_integer_is_itself_and_no_other(value, zeros, tail):
    text = "0" * zeros + str(value) + tail
    assert judge_integer(text, range(1000)).verdict == "correct"
    assert judge_integer(text, [value]).verdict == "correct"
    assert judge_integer(text, [(value + 1) % 1000]).verdict == "wrong"


def test_a_reason_says_what_was_read_and_what_is_accepted():
    assert score("\\boxed{080}", {"accepted": [82, 81]}).reason == "80, accepted: 81, 82"
    assert score("\\boxed{20400}").reason == '"20400" lies outside 0..999'
    assert score("\\boxed{1+1}").reason == '"1+1" is not the number itself'
    assert score("no").reason == "no closed <final> or \\boxed{} outside of thinking"
    assert score("\\boxed{41} or \\boxed{42}").reason == 'two boxes, "41" and "42"'


def test_the_span_is_the_place_of_the_answer():
    text = "🤨 é <think>\\boxed{3}</think> so $\\boxed{ 204 }$."
    judged = score(text)
    (span,) = judged.spans
    assert text[span.start : span.end] == "204"
    assert span.value == 0.0 and span.label == "answer (box): correct"


def test_metrics_tell_answered_from_correct_and_count_truncation_apart():
    reward = MathAnswer(Silent())
    rollouts = [
        Rollout("a", "g", "p", "\\boxed{204}", {"accepted": [204]}),
        Rollout("b", "g", "p", "\\boxed{205}", {"accepted": [204]}),
        Rollout("c", "g", "p", "\\boxed{20", {"accepted": [204]}, finish_reason="length"),
    ]
    found = [dict(s.metrics) for s in asyncio.run(reward.score(rollouts))]
    assert found == [
        {"correct": 1.0, "answered": 1.0, "truncated": 0.0},
        {"correct": 0.0, "answered": 1.0, "truncated": 0.0},
        {"correct": 0.0, "answered": 0.0, "truncated": 1.0},
    ]


def test_a_prompt_that_opens_the_thinking_is_taken_into_account():
    open_prompts = [
        "Solve.\n<think>\n",
        [{"role": "user", "content": "Solve."}, {"role": "assistant", "content": "<think>"}],
    ]
    for prompt in [*open_prompts, "Use <think> tags.", [{"role": "user", "content": "<think>"}]]:
        rollout = Rollout("r", "g", prompt, "so \\boxed{204}", {"accepted": [204]})
        (judged,) = asyncio.run(MathAnswer(Silent()).score([rollout]))
        assert judged.verdict == ("unparsed" if prompt in open_prompts else "correct")


@pytest.mark.parametrize("item", [33, 33.0, "33", "033", "３３"])
def test_accepted_integers_may_be_stored_in_several_ways(item):
    assert score("\\boxed{33}", {"accepted": [item]}).verdict == "correct"


@pytest.mark.parametrize(
    "reference",
    [{}, {"accepted": []}, {"accepted": 204}, {"accepted": "204"}, {"accepted": [1000]},
     {"accepted": [-1]}, {"accepted": [True]}, {"accepted": [0.5]}, {"accepted": ["1/2"]},
     {"accepted": [None]}, {"accepted": ["9" * 9999]}, {"accepted": [float("nan")]},
     {"accepted": [204], "kind": "text"}, {"accepted": [[1]], "kind": "expression"},
     {"accepted": [True], "kind": "expression"}],
)  # fmt: skip
def test_a_reference_of_another_form_is_refused_with_the_allowed_form(reference):
    with pytest.raises(ConfigError, match=r"reference of 'r': got .*; allowed: "):
        asyncio.run(MathAnswer(Silent()).score([Rollout("r", "g", "p", "", reference)]))


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("1/2", "\\dfrac{1}{2}"),
        ("\\frac12", "0.5."),
        ("\\dfrac{\\pi}{2}", "pi/2"),
        ("(x+1)^2", "x^2+2x+1"),
        ("2\\sqrt{2}", "\\sqrt{8}"),
        ("3\\frac12", "7/2"),
        ("\\{1, 2\\}", "\\{2, 1\\}"),
        ("2x+4y-3=0", "y=-x/2+3/4"),
        ("5\\text{ cm}", "5"),
        ("5", "5 cm"),
        ("10", "\\$10"),
        ("72", "72^\\circ"),
        ("(0,1)", "x \\in (0,1)"),
        ("3", "x = 3"),
        ("Sunday", "\\text{sunday}"),
        ("no solution", "\\text{No solution.}"),
        ("\\text{(C)}", "C"),
        ("\\begin{pmatrix}1\\end{pmatrix}", "\\begin{pmatrix} 1 \\end{pmatrix}"),
        ("7.41\\%", "7.41\\%"),
        ("\\frac{1}{2}", "**$\\frac{1}{2}$**"),
        ("1000", "1 000"),
        ("\\frac{1}{6}", "0.1\\overline{6}"),
        ("x = 2, y = 3", "(2, 3)"),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"),
        ("\\{1, 2\\}", "{2, 1}"),
        ("1, 2", "x = 1 \\text{ or } x = 2"),
        ("x = 1, x = 2", "x = 2 or x = 1"),
    ],
)
def test_the_same_value_is_correct_however_it_is_written(gold, answer):
    assert score(f"\\boxed{{{answer}}}", expression("17", gold)).verdict == "correct"


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("1/2^{99}", "1/2^{98}", "wrong"),
        ("52_8", "528", "wrong"),
        ("28\\%", "28", "wrong"),
        ("(0,1)", "(0,1]", "wrong"),
        ("\\pm 2021", "2021", "wrong"),
        ("(3,\\pi/2)", "(3,2\\pi/3)", "wrong"),
        ("1-\\frac{1}{\\mathrm{e}}", "1+\\frac{1}{\\mathrm{e}}", "wrong"),
        ("Sunday", "Monday", "wrong"),
        ("\\text{(C)}", "(D)", "wrong"),
        ("23", "17", "wrong"),
        ("12:00", "1:00", "wrong"),
        ("-6", "(3-9) (5-15", "invalid"),
        ("\\pi", "\\pi; __import__('os').getcwd()", "invalid"),
        ("\\pi", "open('x') + \\pi", "invalid"),
        ("Sunday", "7", "invalid"),
        ("1/2", "no solution", "invalid"),
        ("1/2", "I don't know", "invalid"),
        ("12", "5^{(5^{(5^{(5^5)})}-4)}", "budget"),
        ("12", "((9**9)**9999)**9999", "budget"),
        ("12", "99999999!", "budget"),
        ("12", "x" * 3000, "budget"),
        ("12", "(" * 600 + ")" * 600, "budget"),
        ("12", "(" * 1500, "invalid"),
    ],
)
def test_another_value_is_not(gold, answer, verdict):
    judged = score(f"<final>{answer}</final>", expression(gold))
    assert (judged.verdict, judged.outcome) == (verdict, 0.0) and judged.reason


def test_two_numbers_are_not_one_with_a_space():
    for answer in ("2 3", "2\\,3", "2~3"):
        judged = judge_expression(answer, ["23"])
        assert judged is None or judged.verdict != "correct"
    assert judge_expression("x ^ 2 + 3", ["x^2+3"]).verdict == "correct"


def test_an_accepted_answer_that_is_too_much_to_compare_does_not_hide_the_right_one():
    assert judge_expression("1/2", ["9^{9^{9^9}}", "0.5"]).verdict == "correct"
    assert judge_expression("1/3", ["9^{9^{9^9}}", "0.5"]).verdict == "budget"


def test_what_stays_open_goes_to_the_library_and_its_verdict_stands():
    library = Silent(Judged("wrong", "because"))
    judged = score("so \\boxed{ x<3 }", expression("3>x"), library)
    assert library.asked == [("x<3", ("3>x",))]
    assert (judged.verdict, judged.outcome, judged.reason) == ("wrong", 0.0, "because")
    assert judged.spans[0].label == "answer (box): wrong"


def test_what_nobody_could_tell_is_unscored_and_keeps_its_place():
    library = Silent(Judged("unparsed", "nobody is here", scored=False))
    judged = score("so \\boxed{x<3}", expression("3>x"), library)
    assert judged.outcome is None and judged.reason == "nobody is here" and judged.spans
    assert judged.metrics == {"truncated": 0.0}  # neither right nor wrong


def test_open_answers_come_back_in_order_among_the_others():
    library = Silent(Judged("correct"))
    texts = ["\\boxed{x<3}", "\\boxed{4}", "none", "\\boxed{x<4}", "\\boxed{5}"]
    rollouts = [Rollout(str(i), "g", "p", t, expression("3>x")) for i, t in enumerate(texts)]
    scores = asyncio.run(MathAnswer(library).score(rollouts))
    assert [s.id for s in scores] == list("01234")
    assert [s.verdict for s in scores] == ["correct", "wrong", "unparsed", "correct", "wrong"]


LATEX = st.lists(
    st.one_of(
        st.sampled_from(
            ["\\frac", "\\text{", "\\boxed{", "{", "}", "(", ")", "^", "_", "=", ",", ".", "\\,",
             "$", "\\left", "\\pmod{1000}", "\\circ", "\\equiv", "mod", "answer is", "cm", "9", "0",
             "\\sqrt", "!", "**", " or ", "\\in", "%", "-", "🤨", "\ud83d", "\x00", "\u2028", "７"]
        ),
        st.text(max_size=3),
    ),
    max_size=25,
).map("".join)  # fmt: skip


@given(LATEX, st.sampled_from(["\\boxed{%s}", "<final>%s</final>", "%s"]))
@settings(max_examples=300, deadline=None)
def test_no_text_makes_it_raise_and_the_score_keeps_its_promises(text, frame):
    library = Silent(Judged("unparsed", "open", scored=False))
    completion = frame.replace("%s", text)
    for reference in ({"accepted": [204]}, expression("1/2", "\\text{Sunday}")):
        judged = score(completion, reference, library)
        again = score(completion, reference, library)
        assert (judged.verdict, judged.spans) == (again.verdict, again.spans)
        assert (judged.outcome == 1.0) == (judged.verdict == "correct")


@pytest.mark.parametrize(
    "code",
    ["__import__('os').system('touch {path}')", "\\pi; __import__('os').system('touch {path}')",
     "open('{path}','w')", "print(open('{path}','w'))+\\pi", "().__class__.__base__"],
)  # fmt: skip
def test_code_in_an_answer_is_never_run(tmp_path, code):
    path = tmp_path / "pwned"
    completion = f"\\boxed{{{code.replace('{path}', str(path))}}}"
    library = Silent(Judged("unparsed", "open", scored=False))
    assert score(completion, library=library).verdict == "invalid"
    assert score(completion, expression("\\pi"), library).outcome != 1.0
    assert not path.exists()


def test_scoring_a_file_needs_neither_torch_nor_sympy(tmp_path):
    path = tmp_path / "r.jsonl"
    rollouts = [
        Rollout("a", "g", "p", "\\boxed{204}", {"accepted": [204]}),
        Rollout("b", "g", "p", "\\boxed{1/3}", expression("1/2")),
    ]
    path.write_text("".join(json.dumps(rollout_to_json(r)) + "\n" for r in rollouts))
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / '.dev')!r})\n"
        "from botgrpo.benchmarks.cli import main\n"
        f"code = main(['score', '--reward', 'math.answer', '--in', {str(path)!r}])\n"
        "assert not {'torch', 'sympy', 'math_verify'} & set(sys.modules), 'heavy'\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(s["id"], s["outcome"], s["verdict"]) for s in lines] == [
        ("a", 1.0, "correct"),
        ("b", 0.0, "wrong"),
    ]
