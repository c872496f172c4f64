"""Families of `react_apps`: widgets and games."""

from __future__ import annotations

from botgrpo.benchmarks.tasks.react_apps_parts import (
    BUTTON,
    CARD,
    Draft,
    Family,
    Subject,
    clicks,
    fill,
    quoted,
)


def counter(of: Subject) -> Draft:
    start, stride = of.rng.randint(0, 9), of.rng.choice((1, 2, 5, 10))
    unit = f"{of.thing}s"
    state = "const [count, setCount] = useState(@start@);"
    body = """
<p>{count} @unit@</p>
<div className="flex gap-2">
  <button className="@button@" onClick={() => setCount(count + @stride@)}>Add @stride@</button>
  <button className="@button@" onClick={() => setCount(Math.max(0, count - @stride@))}>Take @stride@</button>
  <button className="@button@" onClick={() => setCount(0)}>Clear</button>
</div>
"""
    return Draft(
        what="a counter",
        wants=(
            f'It counts {unit} and begins with "{start} {unit}".',
            f'Buttons "Add {stride}" and "Take {stride}" change it, never below 0; "Clear" sets it '
            "to 0.",
        ),
        state=fill(state, start=str(start)),
        body=fill(body, unit=unit, stride=str(stride), button=BUTTON),
        elements=("button", "p"),
        texts=(f"{start} {unit}",),
        roles=(("button", f"Add {stride}"), ("button", f"Take {stride}"), ("button", "Clear")),
        steps=(
            {"do": clicks(f"Add {stride}"), "then": {"texts": [f"{start + stride} {unit}"]}},
            {"do": clicks("Clear", f"Take {stride}"), "then": {"texts": [f"0 {unit}"]}},
        ),
    )


def tabs(of: Subject) -> Draft:
    things = of.things(of.rng.randint(3, 4))
    texts = {name: f"All about {name}: number {of.rng.randint(100, 999)}" for name in things}
    state = """
const texts = @texts@;
const [shown, setShown] = useState("@first@");
"""
    body = """
<div role="tablist" className="flex gap-2">
  {Object.keys(texts).map((name) => (
    <button key={name} role="tab" aria-selected={name === shown} className="@button@" onClick={() => setShown(name)}>{name}</button>
  ))}
</div>
<div role="tabpanel" aria-label={shown}>{texts[shown]}</div>
"""
    first, last = things[0], things[-1]
    told = "; ".join(f'{name}: "{text}"' for name, text in texts.items())
    return Draft(
        what="a page with tabs",
        wants=(
            f"The tabs are {quoted(things)}, the first one open. Give them the roles of tabs.",
            f"Each shows its text alone. {told}.",
        ),
        state=fill(state, texts=texts, first=first),
        body=fill(body, button=BUTTON),
        elements=("button", "div"),
        texts=(texts[first],),
        roles=tuple(("tab", name) for name in things),
        steps=(
            {
                "do": clicks(last, role="tab"),
                "then": {"texts": [texts[last]], "gone": [texts[first]]},
            },
        ),
    )


def faq(of: Subject) -> Draft:
    name = of.rng.choice(of.things(7))
    pool = (
        ("When are you open?", "From nine to six, every day."),
        ("Where can I park?", "Behind the house, for free."),
        ("Can I bring a friend?", "Yes, one guest is free."),
        ("How do I cancel?", "Call us a day before."),
        (f"Is there {name} today?", f"Ask at the desk for {name}."),
    )
    pairs = of.rng.sample(pool, of.rng.randint(2, 4))
    state = """
const pairs = @pairs@;
const [open, setOpen] = useState(-1);
"""
    body = """
{pairs.map(([question, answer], i) => (
  <div key={question} className="@card@">
    <button className="@button@" aria-expanded={open === i} onClick={() => setOpen(open === i ? -1 : i)}>{question}</button>
    {open === i && <p>{answer}</p>}
  </div>
))}
"""
    (q0, a0), (q1, a1) = pairs[0], pairs[1]
    told = " ".join(f'"{q}" - "{a}"' for q, a in pairs)
    return Draft(
        what="a page of questions and answers",
        wants=(
            f"Each question is a button that shows its answer; only one is open at a time. {told}",
            "All are closed at first.",
        ),
        state=fill(state, pairs=pairs),
        body=fill(body, button=BUTTON, card=CARD),
        elements=("button", "div"),
        texts=(q0, q1),
        roles=(("button", q0), ("button", q1)),
        steps=(
            {"do": clicks(q0), "then": {"texts": [a0]}},
            {"do": clicks(q1), "then": {"texts": [a1], "gone": [a0]}},
        ),
    )


def quiz(of: Subject) -> Draft:
    a, b = of.rng.randint(3, 12), of.rng.randint(3, 12)
    options = of.rng.sample((a * b, a * b + 2, a * b - 1, a * b + 10), 4)
    wrong = next(each for each in options if each != a * b)
    state = """
const [score, setScore] = useState(0);
const [said, setSaid] = useState("");
const answer = (value) => {
  setSaid(value === @right@ ? "Correct" : "Try again");
  if (value === @right@) setScore(score + 1);
};
"""
    body = """
<p>What is @a@ times @b@?</p>
<div className="flex gap-2">
  {@options@.map((value) => <button key={value} className="@button@" onClick={() => answer(value)}>{value}</button>)}
</div>
<p role="status">{said}</p>
<p>Score: {score}</p>
"""
    return Draft(
        what="a quiz with one question",
        wants=(
            f'It asks "What is {a} times {b}?" and offers {", ".join(map(str, options))} as '
            "buttons.",
            'A wrong one says "Try again", the right one "Correct", and "Score: 0" goes up.',
        ),
        state=fill(state, right=str(a * b)),
        body=fill(body, a=str(a), b=str(b), options=options, button=BUTTON),
        elements=("button", "p"),
        texts=(f"What is {a} times {b}?", "Score: 0"),
        roles=tuple(("button", str(value)) for value in options),
        steps=(
            {"do": clicks(str(wrong)), "then": {"texts": ["Try again"]}},
            {
                "do": clicks(str(a * b)),
                "then": {"texts": ["Correct", "Score: 1"], "gone": ["Try again"]},
            },
        ),
    )


def noughts(of: Subject) -> Draft:
    first = of.rng.choice("XO")
    second = "O" if first == "X" else "X"
    cell = of.rng.randint(1, 9)
    other = cell % 9 + 1
    state = """
const [cells, setCells] = useState(Array(9).fill(""));
const turn = cells.filter(Boolean).length % 2 ? "@second@" : "@first@";
const play = (i) => !cells[i] && setCells(cells.map((each, j) => (i === j ? turn : each)));
"""
    body = """
<p>Next: {turn}</p>
<div className="grid w-48 grid-cols-3 gap-1">
  {cells.map((each, i) => (
    <button key={i} aria-label={`Cell ${i + 1} ${each}`} className="h-14 border border-slate-500 bg-white text-black" onClick={() => play(i)}>{each}</button>
  ))}
</div>
<button className="@button@" onClick={() => setCells(Array(9).fill(""))}>New game</button>
"""
    return Draft(
        what="noughts and crosses",
        wants=(
            'Nine buttons have the accessible names "Cell 1" to "Cell 9", followed by what stands '
            "in them.",
            f'{first} begins, so at first it says "Next: {first}", after a move "Next: {second}".',
            'A button "New game" clears the board. Nobody has to win.',
        ),
        state=fill(state, first=first, second=second),
        body=fill(body, button=BUTTON),
        elements=("button", "p", "div"),
        texts=(f"Next: {first}",),
        roles=(("button", "Cell 1"), ("button", "Cell 9"), ("button", "New game")),
        steps=(
            {
                "do": clicks(f"Cell {cell}"),
                "then": {
                    "texts": [f"Next: {second}"],
                    "roles": [{"role": "button", "name": f"Cell {cell} {first}"}],
                },
            },
            {"do": clicks(f"Cell {other}"), "then": {"texts": [f"Next: {first}"]}},
            {
                "do": clicks("New game", f"Cell {other}"),
                "then": {"texts": [f"Next: {second}"]},
            },
        ),
    )


def guess(of: Subject) -> Draft:
    secret = of.rng.randint(2, 9)
    low = of.rng.randint(1, secret - 1)
    state = """
const secret = @secret@;
const [tries, setTries] = useState(0);
const [said, setSaid] = useState("Pick a number");
const pick = (n) => {
  setTries(tries + 1);
  setSaid(n === secret ? "Found it" : n < secret ? "Too low" : "Too high");
};
"""
    body = """
<p role="status">{said}</p>
<div className="flex flex-wrap gap-2">
  {Array.from({ length: 10 }, (_, i) => (
    <button key={i} className="@button@" onClick={() => pick(i + 1)}>Guess {i + 1}</button>
  ))}
</div>
<p>Tries: {tries}</p>
"""
    return Draft(
        what="a guessing game",
        wants=(
            f'The secret number is {secret}. Buttons "Guess 1" to "Guess 10" try a number.',
            'It says "Pick a number" first, then "Too low", "Too high" or "Found it", and counts '
            '"Tries: 0".',
        ),
        state=fill(state, secret=str(secret)),
        body=fill(body, button=BUTTON),
        elements=("button", "p"),
        texts=("Pick a number", "Tries: 0"),
        roles=(("button", "Guess 5"), ("button", "Guess 10")),
        steps=(
            {"do": clicks(f"Guess {low}"), "then": {"texts": ["Too low", "Tries: 1"]}},
            {"do": clicks(f"Guess {secret}"), "then": {"texts": ["Found it", "Tries: 2"]}},
        ),
    )


def poll(of: Subject) -> Draft:
    things = of.things(of.rng.randint(2, 4))
    state = """
const names = @things@;
const [votes, setVotes] = useState({});
const total = names.reduce((sum, name) => sum + (votes[name] || 0), 0);
"""
    body = """
<p>Which @thing@ do you like best?</p>
<ul className="space-y-2">
  {names.map((name) => (
    <li key={name}>
      <button className="@button@" onClick={() => setVotes({ ...votes, [name]: (votes[name] || 0) + 1 })}>Vote for {name}</button>{" "}
      {name}: {votes[name] || 0}
    </li>
  ))}
</ul>
<p>{total} votes in all</p>
"""
    return Draft(
        what="a poll",
        wants=(
            f'It asks "Which {of.thing} do you like best?" and lists {quoted(things)}, each with a '
            'button "Vote for" and the name, and its count after a colon.',
            'Below stands "0 votes in all".',
        ),
        state=fill(state, things=things),
        body=fill(body, thing=of.thing, button=BUTTON),
        elements=("ul", "li", "button"),
        texts=(f"Which {of.thing} do you like best?", f"{things[0]}: 0", "0 votes in all"),
        roles=tuple(("button", f"Vote for {name}") for name in things),
        steps=(
            {
                "do": clicks(*[f"Vote for {things[1]}"] * 2),
                "then": {"texts": [f"{things[1]}: 2", "2 votes in all"]},
            },
        ),
    )


def pages(of: Subject) -> Draft:
    things = of.things(6)
    size = of.rng.choice((2, 3))
    count = 6 // size
    state = """
const things = @things@;
const [page, setPage] = useState(0);
const shown = things.slice(page * @size@, page * @size@ + @size@);
"""
    body = """
<ul>{shown.map((each) => <li key={each}>{each}</li>)}</ul>
<p>Page {page + 1} of @count@</p>
<div className="flex gap-2">
  <button className="@button@" disabled={page === 0} onClick={() => setPage(page - 1)}>Previous</button>
  <button className="@button@" disabled={page === @last@} onClick={() => setPage(page + 1)}>Next</button>
</div>
"""
    return Draft(
        what="a list in pages",
        wants=(
            f"It goes through {quoted(things)}, {size} on each page.",
            f'Buttons "Previous" and "Next" turn the page and are disabled at the ends; between '
            f'them and the list stands "Page 1 of {count}".',
        ),
        state=fill(state, things=things, size=str(size)),
        body=fill(body, count=str(count), last=str(count - 1), button=BUTTON),
        elements=("ul", "li", "button"),
        texts=(things[0], f"Page 1 of {count}"),
        roles=(("button", "Previous"), ("button", "Next")),
        steps=(
            {
                "do": clicks("Next"),
                "then": {"texts": [things[size], f"Page 2 of {count}"], "gone": [things[0]]},
            },
            {"do": clicks("Previous"), "then": {"texts": [things[0]], "gone": [things[size]]}},
        ),
    )


def dialog(of: Subject) -> Draft:
    name = of.rng.choice(of.things(7))
    price = of.rng.randint(3, 60)
    state = "const [open, setOpen] = useState(false);"
    body = """
<p>Today we recommend @name@.</p>
<button className="@button@" onClick={() => setOpen(true)}>Details</button>
{open && (
  <div role="dialog" aria-label="@name@" className="@card@">
    <p>@name@ costs @price@ EUR.</p>
    <button className="@button@" onClick={() => setOpen(false)}>Close</button>
  </div>
)}
"""
    return Draft(
        what="a recommendation with a dialog",
        wants=(
            f'It says "Today we recommend {name}." A button "Details" opens a dialog named '
            f'"{name}" with "{name} costs {price} EUR." and a button "Close".',
        ),
        state=state,
        body=fill(body, name=name, price=str(price), button=BUTTON, card=CARD),
        elements=("button", "p", "div"),
        texts=(f"Today we recommend {name}.",),
        roles=(("button", "Details"),),
        steps=(
            {
                "do": clicks("Details"),
                "then": {
                    "texts": [f"{name} costs {price} EUR."],
                    "roles": [{"role": "dialog", "name": name}],
                },
            },
            {"do": clicks("Close"), "then": {"gone": [f"costs {price} EUR"]}},
        ),
    )


FAMILIES: dict[str, Family] = {
    f.__name__: f for f in (counter, tabs, faq, quiz, noughts, guess, poll, pages, dialog)
}
