"""What the React requests are made of: families of components, names, elements, props, texts.

In a variant `%w` stands for a label, `%n` for a number, and a body line `@` for the elements that
only show something (`<h2>{title}</h2>`). Every file comes to 12 to 16 lines, so that no family is
easier to compile than another merely by being short.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variant:
    """One structure of a family.

    Attributes:
        state: lines between the function's head and its `return`.
        body: lines inside the root element.
        hooks: names imported from react.
        root: attributes of the root element, with a leading space.
    """

    state: tuple[str, ...]
    body: tuple[str, ...]
    hooks: tuple[str, ...] = ("useState",)
    root: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """Structures that answer the same request.

    Attributes:
        core: elements in every file of the family, after those that only show something.
        variants: the structures; a file takes one of them.
        root: the element around all others where the family fixes it.
    """

    core: tuple[str, ...]
    variants: tuple[Variant, ...]
    root: str = ""


ROOTS = ("section", "main", "article", "aside")
DISPLAY = ("h1", "h2", "h3", "p", "span", "strong", "small", "em")
PROPS = (
    "title",
    "label",
    "note",
    "unit",
    "owner",
    "price",
    "limit",
    "city",
    "color",
    "email",
    "date",
    "size",
    "level",
    "status",
)
LABELS = ("Add", "Reset", "Save", "Done", "Next", "Back", "Open", "More", "Send", "Ready")
NUMBERS = ("0", "1", "2", "3", "5", "10")
NAMES = (
    "Tally",
    "Roster",
    "Ledger",
    "Beacon",
    "Harbor",
    "Meadow",
    "Summit",
    "Lantern",
    "Compass",
    "Anchor",
    "Bridge",
    "Canvas",
    "Cedar",
    "Cobalt",
    "Copper",
    "Coral",
    "Crest",
    "Delta",
    "Drift",
    "Ember",
    "Falcon",
    "Fern",
    "Flint",
    "Forge",
    "Garnet",
    "Glacier",
    "Granite",
    "Grove",
    "Hazel",
    "Heron",
    "Indigo",
    "Ivory",
    "Jasper",
    "Juniper",
    "Kestrel",
    "Lagoon",
    "Lark",
    "Linden",
    "Lotus",
    "Maple",
    "Marble",
    "Marlin",
    "Mosaic",
    "Nectar",
    "Nimbus",
    "Ochre",
    "Onyx",
    "Opal",
    "Orchid",
    "Pebble",
    "Pine",
    "Prairie",
    "Quartz",
    "Quill",
    "Raven",
    "Ridge",
    "Saffron",
    "Sparrow",
    "Topaz",
    "Willow",
)

FAMILIES: dict[str, Family] = {
    "counter": Family(
        core=("button",),
        variants=(
            Variant(
                state=(
                    "const [count, setCount] = useState(%n);",
                    "const add = () => setCount(count + %n);",
                    "const reset = () => setCount(%n);",
                ),
                body=(
                    "@",
                    "<button onClick={add}>%w {count}</button>",
                    "<button onClick={reset}>%w</button>",
                ),
            ),
            Variant(
                state=(
                    "const [count, setCount] = useState(%n);",
                    "function add() {",
                    "  setCount(count + %n);",
                    "}",
                ),
                body=("@", "<button onClick={add}>{count}</button>"),
            ),
        ),
    ),
    "toggle": Family(
        core=("button",),
        variants=(
            Variant(
                state=(
                    "const [open, setOpen] = useState(false);",
                    "const flip = () => setOpen(!open);",
                    'const text = open ? "%w" : "%w";',
                ),
                body=("@", "<button onClick={flip}>{text}</button>"),
            ),
            Variant(
                state=(
                    "const [open, setOpen] = useState(true);",
                    "function flip() {",
                    "  setOpen(!open);",
                    "}",
                ),
                body=("@", '<button onClick={flip}>{open ? "%w" : "%w"}</button>'),
            ),
        ),
    ),
    "list": Family(
        core=("ul", "li"),
        variants=(
            Variant(
                hooks=(),
                state=('const items = ["%w", "%w", "%w"];',),
                body=(
                    "@",
                    "<ul>",
                    "  {items.map((item) => (",
                    "    <li key={item}>{item}</li>",
                    "  ))}",
                    "</ul>",
                ),
            ),
            Variant(
                state=('const [items] = useState(["%w", "%w"]);',),
                body=(
                    "@",
                    "<ul>",
                    "  {items.map((item) => <li key={item}>{item}</li>)}",
                    "</ul>",
                ),
            ),
        ),
    ),
    "form": Family(
        root="form",
        core=("input", "button"),
        variants=(
            Variant(
                state=(
                    'const [text, setText] = useState("");',
                    'const send = () => setText("");',
                    "const change = (event) => setText(event.target.value);",
                ),
                root=" onSubmit={send}",
                body=(
                    "@",
                    "<input value={text} onChange={change} />",
                    '<button type="submit">%w</button>',
                ),
            ),
            Variant(
                state=(
                    'const [text, setText] = useState("%w");',
                    "function change(event) {",
                    "  setText(event.target.value);",
                    "}",
                ),
                body=(
                    "@",
                    "<input value={text} onChange={change} />",
                    '<button type="submit">%w</button>',
                ),
            ),
        ),
    ),
    "card": Family(
        core=("a",),
        variants=(
            Variant(
                hooks=(),
                state=("const count = %n;", 'const text = "%w";', "const last = count - %n;"),
                body=("@", '<a href="#more">{text}</a>', '<a href="#all">%w {last}</a>'),
            ),
            Variant(
                state=(
                    "const [count, setCount] = useState(%n);",
                    "const add = () => setCount(count + 1);",
                ),
                body=("@", '<a href="#more" onClick={add}>%w {count}</a>'),
            ),
        ),
    ),
    "table": Family(
        core=("table", "tr", "td"),
        variants=(
            Variant(
                hooks=(),
                state=("const items = [%n, %n, %n];",),
                body=(
                    "@",
                    "<table>",
                    "  {items.map((item) => (",
                    "    <tr key={item}><td>{item}</td></tr>",
                    "  ))}",
                    "</table>",
                ),
            ),
            Variant(
                hooks=(),
                state=(),
                body=(
                    "@",
                    "<table>",
                    "  <tr>",
                    "    <td>%w</td>",
                    "    <td>{%n + %n}</td>",
                    "  </tr>",
                    "</table>",
                ),
            ),
        ),
    ),
    "tabs": Family(
        core=("nav", "button"),
        variants=(
            Variant(
                state=("const [tab, setTab] = useState(%n);",),
                body=(
                    "@",
                    "<nav>",
                    "  <button onClick={() => setTab(1)}>%w</button>",
                    "  <button onClick={() => setTab(2)}>%w {tab}</button>",
                    "</nav>",
                ),
            ),
            Variant(
                state=("const [tab, setTab] = useState(1);", "const next = () => setTab(tab + 1);"),
                body=("@", "<nav>", "  <button onClick={next}>%w {tab}</button>", "</nav>"),
            ),
        ),
    ),
    "meter": Family(
        core=("progress", "button"),
        variants=(
            Variant(
                state=(
                    "const [value, setValue] = useState(%n);",
                    "const add = () => setValue(value + %n);",
                ),
                body=(
                    "@",
                    '<progress value={value} max="10" />',
                    "<button onClick={add}>%w</button>",
                ),
            ),
            Variant(
                state=(
                    "const [value, setValue] = useState(%n);",
                    "const full = value / 10;",
                ),
                body=(
                    "@",
                    "<progress value={full} />",
                    "<button onClick={() => setValue(value + 1)}>%w</button>",
                ),
            ),
        ),
    ),
    "timer": Family(
        core=("time",),
        variants=(
            Variant(
                hooks=("useEffect", "useState"),
                state=(
                    "const [now, setNow] = useState(%n);",
                    "useEffect(() => {",
                    "  const id = setTimeout(() => setNow(now + 1), 100);",
                    "  return () => clearTimeout(id);",
                    "}, [now]);",
                ),
                body=("@", "<time>{now}</time>"),
            ),
            Variant(
                hooks=("useEffect", "useState"),
                state=(
                    "const [now, setNow] = useState(%n);",
                    "const next = () => setNow(now + 1);",
                    "useEffect(() => {",
                    "  setTimeout(next, 100);",
                    "}, [now]);",
                ),
                body=("@", "<time>{now}</time>"),
            ),
        ),
    ),
    "todo": Family(
        core=("button", "ol"),
        variants=(
            Variant(
                state=(
                    'const [items, setItems] = useState(["%w"]);',
                    'const add = () => setItems([...items, "%w"]);',
                ),
                body=("@", "<button onClick={add}>%w</button>", "<ol>{items.length}</ol>"),
            ),
            Variant(
                hooks=("useRef", "useState"),
                state=(
                    "const last = useRef(%n);",
                    "const [items, setItems] = useState([]);",
                    "const add = () => setItems([...items, last]);",
                ),
                body=("@", "<button onClick={add}>%w</button>", "<ol>{items.length}</ol>"),
            ),
        ),
    ),
}
