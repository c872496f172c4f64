"""Families of `react_apps`: dashboards, charts and landing pages."""

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


def metrics(of: Subject) -> Draft:
    things = of.things(of.rng.randint(3, 4))
    week = {name: of.rng.randint(10, 99) for name in things}
    month = {name: of.rng.randint(200, 900) for name in things}
    state = """
const numbers = { Week: @week@, Month: @month@ };
const [span, setSpan] = useState("Week");
"""
    body = """
<div className="flex gap-2">
  {Object.keys(numbers).map((each) => (
    <button key={each} className="@button@" aria-pressed={each === span} onClick={() => setSpan(each)}>{each}</button>
  ))}
</div>
<section className="grid grid-cols-2 gap-3">
  {Object.entries(numbers[span]).map(([name, count]) => (
    <article key={name} className="@card@"><h2>{name}</h2><p>{count} sold</p></article>
  ))}
</section>
"""
    first = things[0]
    return Draft(
        what="a dashboard of sales",
        wants=(
            f"A card for each of {quoted(things)} shows how many were sold, such as "
            f'"{week[first]} sold".',
            'Buttons "Week" and "Month" choose the span, a week at first. The week: '
            + ", ".join(f"{k} {v}" for k, v in week.items())
            + ". The month: "
            + ", ".join(f"{k} {v}" for k, v in month.items())
            + ".",
        ),
        state=fill(state, week=week, month=month),
        body=fill(body, button=BUTTON, card=CARD),
        elements=("button", "section", "article", "h2"),
        texts=(*things, f"{week[first]} sold"),
        roles=(("button", "Week"), ("button", "Month"), ("heading", things[1])),
        steps=({"do": clicks("Month"), "then": {"texts": [f"{month[first]} sold"]}},),
    )


def table(of: Subject) -> Draft:
    things = of.things(of.rng.randint(4, 6))
    prices = of.rng.sample(range(5, 95), len(things))
    if prices[0] == min(prices):  # else sorting would change nothing that is asked for
        prices.reverse()
    rows = [{"name": name, "price": price} for name, price in zip(things, prices, strict=True)]
    cheapest = things[prices.index(min(prices))]
    state = """
const rows = @rows@;
const [sorted, setSorted] = useState(false);
const shown = sorted ? [...rows].sort((a, b) => a.price - b.price) : rows;
"""
    body = """
<button className="@button@" onClick={() => setSorted(!sorted)}>Sort by price</button>
<p>First: {shown[0].name}</p>
<table className="border">
  <thead><tr><th scope="col">Name</th><th scope="col">Price</th></tr></thead>
  <tbody>{shown.map((row) => <tr key={row.name}><td>{row.name}</td><td>{row.price} EUR</td></tr>)}</tbody>
</table>
"""
    listed = ", ".join(f"{row['name']} {row['price']} EUR" for row in rows)
    return Draft(
        what="a price list that can be sorted",
        wants=(
            f'A table with the columns "Name" and "Price" holds, in this order, {listed}.',
            'A button "Sort by price" puts the cheapest first and back.',
            f'Above the table a line names the first row: "First: {things[0]}".',
        ),
        state=fill(state, rows=rows),
        body=fill(body, button=BUTTON),
        elements=("button", "table", "thead", "th", "td"),
        texts=(*things, f"First: {things[0]}", f"{prices[0]} EUR"),
        roles=(("button", "Sort by price"), ("columnheader", "Price")),
        steps=({"do": clicks("Sort by price"), "then": {"texts": [f"First: {cheapest}"]}},),
    )


def bars(of: Subject) -> Draft:
    things = of.things(of.rng.randint(3, 5))
    values = {name: of.rng.randint(10, 100) for name in things}
    label = f"Bar chart of {len(things)} {of.thing}s"
    state = """
const values = @values@;
const [exact, setExact] = useState(false);
"""
    body = """
<svg role="img" aria-label="@label@" width="320" height="@height@">
  {Object.entries(values).map(([name, value], i) => (
    <rect key={name} x="0" y={i * 24} width={value * 3} height="18" fill="#334155" />
  ))}
</svg>
<ul>{Object.entries(values).map(([name, value]) => <li key={name}>{name}{exact && `: ${value}`}</li>)}</ul>
<button className="@button@" onClick={() => setExact(!exact)}>{exact ? "Hide numbers" : "Show numbers"}</button>
"""
    told = ", ".join(f"{name} {value}" for name, value in values.items())
    first = things[0]
    return Draft(
        what="a bar chart",
        wants=(
            f'Draw one bar each for {told}, as SVG, with the accessible name "{label}".',
            f'A list below names them. A button "Show numbers" adds the numbers, as in '
            f'"{first}: {values[first]}", and then reads "Hide numbers".',
        ),
        state=fill(state, values=values),
        body=fill(body, label=label, height=str(24 * len(things)), button=BUTTON),
        elements=("svg", "rect", "button", "ul"),
        texts=things,
        roles=(("img", label), ("button", "Show numbers")),
        steps=(
            {"do": clicks("Show numbers"), "then": {"texts": [f"{first}: {values[first]}"]}},
            {"do": clicks("Hide numbers"), "then": {"gone": [f"{first}: {values[first]}"]}},
        ),
    )


def line(of: Subject) -> Draft:
    thing = of.rng.choice(of.things(7))
    values = [of.rng.randint(10, 90) for _ in range(12)]
    label = f"{thing} over time"
    short, whole = max(values[-6:]), max(values)
    state = """
const all = @values@;
const [count, setCount] = useState(12);
const shown = all.slice(-count);
const points = shown.map((value, i) => `${(i * 300) / (shown.length - 1)},${100 - value}`).join(" ");
"""
    body = """
<svg role="img" aria-label="@label@" width="300" height="100" viewBox="0 0 300 100">
  <polyline points={points} fill="none" stroke="#b45309" strokeWidth="3" />
</svg>
<div className="flex gap-2">
  {[6, 12].map((each) => (
    <button key={each} className="@button@" aria-pressed={each === count} onClick={() => setCount(each)}>{each} months</button>
  ))}
</div>
<p>{count} points, highest {Math.max(...shown)}</p>
"""
    return Draft(
        what="a line chart",
        wants=(
            f"Draw these twelve months as a line in SVG: {', '.join(map(str, values))}; its "
            f'accessible name is "{label}".',
            'Buttons "6 months" and "12 months" choose how many of the last are shown, twelve at '
            "first.",
            f'Below, a line says for example "12 points, highest {whole}".',
        ),
        state=fill(state, values=values),
        body=fill(body, label=label, button=BUTTON),
        elements=("svg", "polyline", "button", "p"),
        texts=(f"12 points, highest {whole}",),
        roles=(("img", label), ("button", "6 months"), ("button", "12 months")),
        steps=({"do": clicks("6 months"), "then": {"texts": [f"6 points, highest {short}"]}},),
    )


def pricing(of: Subject) -> Draft:
    plans = of.rng.choice(
        (("Basic", "Plus", "Pro"), ("Starter", "Team", "Company"), ("Small", "Medium", "Large"))
    )
    prices = sorted(of.rng.sample(range(4, 90), 3))
    chosen = of.rng.choice(plans)
    state = """
const plans = @plans@;
const [chosen, setChosen] = useState("");
"""
    body = """
<section className="grid grid-cols-3 gap-3">
  {plans.map(([name, price]) => (
    <article key={name} className="@card@">
      <h2>{name}</h2>
      <p>{price} EUR a month</p>
      <button className="@button@" onClick={() => setChosen(name)}>Choose {name}</button>
    </article>
  ))}
</section>
<p role="status">{chosen ? `You chose ${chosen}` : "No plan chosen"}</p>
"""
    pairs = list(zip(plans, prices, strict=True))
    told = ", ".join(f"{name} at {price} EUR a month" for name, price in pairs)
    return Draft(
        what="a page of prices",
        wants=(
            f"Three plans stand side by side: {told}. Each has its name as a heading and a button "
            '"Choose" followed by the name.',
            f'Below it says "No plan chosen", then for example "You chose {plans[0]}".',
        ),
        state=fill(state, plans=pairs),
        body=fill(body, button=BUTTON, card=CARD),
        elements=("section", "article", "h2", "button"),
        texts=(*plans, "No plan chosen", f"{prices[0]} EUR a month"),
        roles=tuple(("button", f"Choose {name}") for name in plans),
        steps=({"do": clicks(f"Choose {chosen}"), "then": {"texts": [f"You chose {chosen}"]}},),
    )


def landing(of: Subject) -> Draft:
    things = of.things(3)
    tagline = of.rng.choice(
        ("Made with care, every day", "Open to everyone", "Small, local and friendly",
         "Everything in one place", "Come for an hour, stay for a day")
    )  # fmt: skip
    call = of.rng.choice(("Get started", "Learn more", "Visit us"))
    hours = f"Open from {of.rng.randint(7, 10)} to {of.rng.randint(16, 21)}"
    state = "const [open, setOpen] = useState(false);"
    body = """
<p className="text-xl">@tagline@</p>
<button className="@button@" aria-expanded={open} onClick={() => setOpen(!open)}>@call@</button>
{open && <p>@hours@</p>}
<section className="grid grid-cols-3 gap-3">
  {@things@.map((name) => <article key={name} className="@card@"><h2>{name}</h2><p>Ask us about {name}.</p></article>)}
</section>
<footer>© @title@</footer>
"""
    return Draft(
        what="a landing page",
        wants=(
            f'Under the headline stands "{tagline}" and a button "{call}", which shows and hides '
            f'"{hours}".',
            f"Three boxes have {quoted(things)} as headings, each with a sentence.",
            f'The page ends with a footer "© {of.title}".',
        ),
        state=state,
        body=fill(
            body, tagline=tagline, call=call, hours=hours, things=things, title=of.title,
            button=BUTTON, card=CARD,
        ),
        elements=("button", "section", "h2", "footer"),
        texts=(tagline, *things, f"© {of.title}"),
        roles=(("button", call), *(("heading", name) for name in things)),
        steps=(
            {"do": clicks(call), "then": {"texts": [hours]}},
            {"do": clicks(call), "then": {"gone": [hours]}},
        ),
    )  # fmt: skip


def cart(of: Subject) -> Draft:
    things = of.things(of.rng.randint(3, 4))
    prices = [of.rng.randint(2, 30) for _ in things]
    items = list(zip(things, prices, strict=True))
    state = """
const items = @items@;
const [cart, setCart] = useState([]);
const total = cart.reduce((sum, price) => sum + price, 0);
"""
    body = """
<ul className="space-y-2">
  {items.map(([name, price]) => (
    <li key={name}>{name}, {price} EUR <button className="@button@" onClick={() => setCart([...cart, price])}>Add {name}</button></li>
  ))}
</ul>
<p>{cart.length} in the cart, {total} EUR</p>
<button className="@button@" onClick={() => setCart([])}>Empty the cart</button>
"""
    told = ", ".join(f"{name} for {price} EUR" for name, price in items)
    both = prices[0] + prices[1]
    return Draft(
        what="a small shop with a cart",
        wants=(
            f'It sells {told}; each has a button "Add" followed by its name.',
            'A line counts: "0 in the cart, 0 EUR". A button "Empty the cart" starts anew.',
        ),
        state=fill(state, items=items),
        body=fill(body, button=BUTTON),
        elements=("ul", "li", "button", "p"),
        texts=(*things, "0 in the cart, 0 EUR"),
        roles=tuple(("button", f"Add {name}") for name in things),
        steps=(
            {
                "do": clicks(f"Add {things[0]}", f"Add {things[1]}"),
                "then": {"texts": [f"2 in the cart, {both} EUR"]},
            },
            {"do": clicks("Empty the cart"), "then": {"texts": ["0 in the cart, 0 EUR"]}},
        ),
    )


def kanban(of: Subject) -> Draft:
    things = of.things(of.rng.randint(2, 4))
    state = """
const things = @things@;
const [done, setDone] = useState([]);
"""
    body = """
<div className="grid grid-cols-2 gap-4">
  <section className="@card@">
    <h2>To do</h2>
    <p>{things.length - done.length} left</p>
    {things.filter((each) => !done.includes(each)).map((each) => (
      <button key={each} className="@button@" onClick={() => setDone([...done, each])}>Finish {each}</button>
    ))}
  </section>
  <section className="@card@">
    <h2>Done</h2>
    <ul>{done.map((each) => <li key={each}>{each} is done</li>)}</ul>
  </section>
</div>
"""
    return Draft(
        what="a board with two columns",
        wants=(
            f'The columns are "To do" and "Done". At first {quoted(things)} are to do; each is a '
            'button "Finish" followed by its name.',
            f'A finished one moves over and reads "{things[0]} is done". The first column says how '
            f'many are left, such as "{len(things)} left".',
        ),
        state=fill(state, things=things),
        body=fill(body, button=BUTTON, card=CARD),
        elements=("section", "h2", "button"),
        texts=("To do", "Done", f"{len(things)} left"),
        roles=(("heading", "To do"), ("heading", "Done"), ("button", f"Finish {things[0]}")),
        steps=(
            {
                "do": clicks(f"Finish {things[0]}"),
                "then": {
                    "texts": [f"{things[0]} is done", f"{len(things) - 1} left"],
                    "gone": [f"Finish {things[0]}"],
                },
            },
        ),
    )


FAMILIES: dict[str, Family] = {
    f.__name__: f for f in (metrics, table, bars, line, pricing, landing, cart, kanban)
}
