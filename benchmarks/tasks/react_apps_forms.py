"""Families of `react_apps`: forms, lists and calculators."""

from __future__ import annotations

from botgrpo.benchmarks.tasks.react_apps_parts import (
    BUTTON,
    FIELD,
    Draft,
    Family,
    Subject,
    clicks,
    fill,
    fills,
    quoted,
)


def todo(of: Subject) -> Draft:
    things, new = of.things(of.rng.randint(2, 4)), of.other()
    label = f"New {of.thing}"
    state = """
const [items, setItems] = useState(@items@);
const [text, setText] = useState("");
const add = () => {
  if (text) setItems([...items, text]);
  setText("");
};
"""
    body = """
<label>@label@<input className="@field@" value={text} onChange={(event) => setText(event.target.value)} /></label>
<button className="@button@" onClick={add}>Add</button>
<ul className="space-y-2">
  {items.map((item) => (
    <li key={item}>
      {item} <button className="@button@" onClick={() => setItems(items.filter((each) => each !== item))}>Remove {item}</button>
    </li>
  ))}
</ul>
"""
    return Draft(
        what="a list that can be added to",
        wants=(
            f"It begins with {quoted(things)}.",
            f'A text field labelled "{label}" and a button "Add" put a new line on the list.',
            'Each line has a button "Remove" followed by its name, which takes it away.',
        ),
        state=fill(state, items=things),
        body=fill(body, label=label, field=FIELD, button=BUTTON),
        elements=("input", "button", "ul", "li"),
        texts=things,
        roles=(("textbox", label), ("button", "Add"), ("button", f"Remove {things[0]}")),
        steps=(
            {
                "do": [*fills(**{label.replace(" ", "_"): new}), *clicks("Add")],
                "then": {"texts": [new]},
            },
            {"do": clicks(f"Remove {things[0]}"), "then": {"gone": [f"Remove {things[0]}"]}},
        ),
    )


def contact(of: Subject) -> Draft:
    topic, name = of.rng.choice(of.things(7)), of.rng.choice(("Ada", "Grace", "Emmy", "Sofia"))
    state = """
const [form, setForm] = useState({ name: "", email: "", message: "" });
const [sent, setSent] = useState(false);
const set = (key) => (event) => setForm({ ...form, [key]: event.target.value });
"""
    body = """
{sent ? (
  <p>Thank you, {form.name}. We will write about @topic@ soon.</p>
) : (
  <form className="space-y-2" onSubmit={(event) => { event.preventDefault(); setSent(true); }}>
    <label>Name<input className="@field@" value={form.name} onChange={set("name")} /></label>
    <label>Email<input className="@field@" value={form.email} onChange={set("email")} /></label>
    <label>Message<textarea className="@field@" value={form.message} onChange={set("message")} /></label>
    <button className="@button@" type="submit">Send</button>
  </form>
)}
"""
    written = fills(Name=name, Email="a@b.example", Message="Hello")
    return Draft(
        what="a contact form",
        wants=(
            'It has fields labelled "Name", "Email" and "Message" and a button "Send".',
            f'Once it is sent, the form makes way for "Thank you," with the name that was given, '
            f'and "We will write about {topic} soon."',
        ),
        state=state,
        body=fill(body, topic=topic, field=FIELD, button=BUTTON),
        elements=("form", "input", "textarea", "button"),
        roles=(("textbox", "Name"), ("textbox", "Email"), ("textbox", "Message")),
        steps=(
            {
                "do": [*written, *clicks("Send")],
                "then": {"texts": [f"Thank you, {name}", topic], "gone": ["Send"]},
            },
        ),
    )


def signup(of: Subject) -> Draft:
    action = of.rng.choice(("Create account", "Join now", "Sign up"))
    state = """
const [email, setEmail] = useState("");
const [said, setSaid] = useState("");
const submit = () => setSaid(email.includes("@") ? `Welcome, ${email}` : "Enter an email address");
"""
    body = """
<label>Email<input className="@field@" value={email} onChange={(event) => setEmail(event.target.value)} /></label>
<button className="@button@" onClick={submit}>@action@</button>
<p role="status">{said}</p>
"""
    return Draft(
        what="a sign-up box",
        wants=(
            f'A field labelled "Email" and a button "{action}".',
            'Without an @ it says "Enter an email address"; else it says "Welcome," and the address.',
        ),
        state=state,
        body=fill(body, field=FIELD, button=BUTTON, action=action),
        elements=("input", "button", "p"),
        roles=(("textbox", "Email"), ("button", action)),
        steps=(
            {"do": clicks(action), "then": {"texts": ["Enter an email address"]}},
            {
                "do": [*fills(Email="ada@example.com"), *clicks(action)],
                "then": {"texts": ["Welcome, ada@example.com"], "gone": ["Enter an email"]},
            },
        ),
    )


def search(of: Subject) -> Draft:
    things = of.things(of.rng.randint(5, 7))
    kept = of.rng.choice(things)
    gone = next(t for t in things if kept.lower() not in t.lower())
    state = """
const things = @things@;
const [query, setQuery] = useState("");
const found = things.filter((each) => each.toLowerCase().includes(query.toLowerCase()));
"""
    body = """
<label>Search<input className="@field@" value={query} onChange={(event) => setQuery(event.target.value)} /></label>
<p>{found.length} of {things.length} shown</p>
<ul>{found.map((each) => <li key={each}>{each}</li>)}</ul>
"""
    return Draft(
        what="a list that can be searched",
        wants=(
            f"The list holds {quoted(things)}.",
            'A text field labelled "Search" leaves only the lines that contain what is typed, in '
            f'any case, and a line says how many, such as "{len(things)} of {len(things)} shown".',
        ),
        state=fill(state, things=things),
        body=fill(body, field=FIELD),
        elements=("input", "ul", "li"),
        texts=(*things, f"{len(things)} of {len(things)} shown"),
        roles=(("textbox", "Search"),),
        steps=(
            {
                "do": fills(Search=kept.lower()),
                "then": {"texts": [kept, f"of {len(things)} shown"], "gone": [gone]},
            },
        ),
    )


def tip(of: Subject) -> Draft:
    percent = of.rng.choice((5, 10, 15, 20, 25))
    bill = of.rng.choice((20, 40, 60, 80, 120))
    total = f"{bill * (100 + percent) / 100:.2f}"
    state = """
const [bill, setBill] = useState("");
const [percent, setPercent] = useState("@percent@");
const total = (Number(bill) || 0) * (1 + (Number(percent) || 0) / 100);
"""
    body = """
<label>Bill<input className="@field@" value={bill} onChange={(event) => setBill(event.target.value)} /></label>
<label>Tip percent<input className="@field@" value={percent} onChange={(event) => setPercent(event.target.value)} /></label>
<p>Total: {total.toFixed(2)}</p>
"""
    return Draft(
        what="a tip calculator",
        wants=(
            'Two text fields are labelled "Bill" and "Tip percent"; the second begins at '
            f"{percent}.",
            'Below stands "Total:" with bill and tip together, always with two decimals.',
        ),
        state=fill(state, percent=str(percent)),
        body=fill(body, field=FIELD),
        elements=("input", "label", "p"),
        texts=("Total: 0.00",),
        roles=(("textbox", "Bill"), ("textbox", "Tip percent")),
        steps=(
            {"do": fills(Bill=str(bill)), "then": {"texts": [f"Total: {total}"]}},
            {"do": fills(Tip_percent="50"), "then": {"texts": [f"Total: {bill * 1.5:.2f}"]}},
        ),
    )


def converter(of: Subject) -> Draft:
    source, target, factor = of.rng.choice(
        (("miles", "kilometres", 1.6), ("pounds", "kilograms", 0.45), ("inches", "centimetres", 2.5),
         ("gallons", "litres", 3.8), ("hours", "minutes", 60), ("weeks", "days", 7))
    )  # fmt: skip
    amount = of.rng.randint(2, 40)
    state = """
const [amount, setAmount] = useState("1");
const found = ((Number(amount) || 0) * @factor@).toFixed(1);
"""
    body = """
<label>Amount in @source@<input className="@field@" value={amount} onChange={(event) => setAmount(event.target.value)} /></label>
<p>{amount} @source@ are {found} @target@</p>
<button className="@button@" onClick={() => setAmount("1")}>Reset</button>
"""
    return Draft(
        what=f"a converter from {source} to {target}",
        wants=(
            f'A text field is labelled "Amount in {source}" and begins at 1.',
            f'A line says for example "1 {source} are {factor:.1f} {target}"; one {source[:-1]} '
            f"counts as {factor:g} {target}, and the result has one decimal.",
            'A button "Reset" sets it back to 1.',
        ),
        state=fill(state, factor=str(factor)),
        body=fill(body, source=source, target=target, field=FIELD, button=BUTTON),
        elements=("input", "button", "p"),
        texts=(f"1 {source} are {factor:.1f} {target}",),
        roles=(("textbox", f"Amount in {source}"), ("button", "Reset")),
        steps=(
            {
                "do": fills(**{f"Amount_in_{source}": str(amount)}),
                "then": {"texts": [f"{amount} {source} are {amount * factor:.1f} {target}"]},
            },
            {"do": clicks("Reset"), "then": {"texts": [f"1 {source} are {factor:.1f}"]}},
        ),
    )


def settings(of: Subject) -> Draft:
    names = of.rng.sample(("Email alerts", "Weekly summary", "Sound", "Large text", "Autosave"), 3)
    state = """
const [on, setOn] = useState({});
const count = Object.values(on).filter(Boolean).length;
"""
    body = """
{@names@.map((name) => (
  <label key={name} className="block">
    <input type="checkbox" checked={Boolean(on[name])} onChange={() => setOn({ ...on, [name]: !on[name] })} /> {name}
  </label>
))}
<p>{count} of @total@ switched on</p>
"""
    return Draft(
        what="a settings panel",
        wants=(
            f"It has check boxes labelled {quoted(names)}, all off at first.",
            f'A line says how many are on: "0 of {len(names)} switched on".',
        ),
        state=state,
        body=fill(body, names=names, total=str(len(names))),
        elements=("input", "label", "p"),
        texts=(f"0 of {len(names)} switched on",),
        roles=tuple(("checkbox", name) for name in names),
        steps=(
            {
                "do": clicks(names[1], role="checkbox"),
                "then": {"texts": [f"1 of {len(names)} switched on"]},
            },
            {
                "do": clicks(names[1], role="checkbox"),
                "then": {"texts": [f"0 of {len(names)} switched on"]},
            },
        ),
    )


def rating(of: Subject) -> Draft:
    most, chosen = of.rng.choice((3, 5, 7)), 0
    chosen = of.rng.randint(1, most)
    thing = of.rng.choice(of.things(7))
    state = "const [stars, setStars] = useState(0);"
    body = """
<p>How was @thing@?</p>
<div className="flex gap-2">
  {Array.from({ length: @most@ }, (_, i) => (
    <button key={i} className="@button@" aria-pressed={stars > i} onClick={() => setStars(i + 1)}>Rate {i + 1}</button>
  ))}
</div>
<p>{stars ? `You gave ${stars} of @most@` : "Not rated yet"}</p>
"""
    return Draft(
        what="a rating box",
        wants=(
            f'It asks "How was {thing}?" and has buttons "Rate 1" to "Rate {most}".',
            f'At first it says "Not rated yet", then for example "You gave 1 of {most}".',
        ),
        state=state,
        body=fill(body, thing=thing, most=str(most), button=BUTTON),
        elements=("button", "p"),
        texts=(f"How was {thing}?", "Not rated yet"),
        roles=(("button", "Rate 1"), ("button", f"Rate {most}")),
        steps=(
            {
                "do": clicks(f"Rate {chosen}"),
                "then": {"texts": [f"You gave {chosen} of {most}"], "gone": ["Not rated yet"]},
            },
        ),
    )


FAMILIES: dict[str, Family] = {
    f.__name__: f for f in (todo, contact, signup, search, tip, converter, settings, rating)
}
