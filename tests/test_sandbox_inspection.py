"""What is found out of a mounted page, and that no page can forge it."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest

from botgrpo.sandbox import browser as browser_module
from botgrpo.sandbox.browser import PageResult, ReactBrowser
from botgrpo.sandbox.inspection import CHECKS, Action, Inspection, Wish, read
from botgrpo.sandbox.pool import Attempted

HEAD = "import { useState, useEffect, useRef } from 'react';\n"
ROLES = Wish(roles=True)


def page(browser: ReactBrowser, body: str, top: str = "", wish: Wish = ROLES) -> PageResult:
    source = f"{HEAD}{top}\nexport default function App() {{ {body} }}\n"
    compiled, result = asyncio.run(browser.render(source, wish))
    assert result is not None, compiled
    return result


def look(browser: ReactBrowser, body: str, top: str = "", wish: Wish = ROLES) -> Inspection:
    result = page(browser, body, top, wish)
    assert result.status == "ok", result
    assert result.inspection is not None and result.inspection.complete
    return result.inspection


def faults(seen: Inspection) -> dict[str, int]:
    return {name: check.bad for name, check in seen.checks.items() if check.bad}


@pytest.mark.browser
def test_a_page_in_order_has_no_fault_and_says_its_text_roles_and_tags(
    browser: ReactBrowser,
) -> None:
    seen = look(
        browser,
        "return <main className='p-4'><h1>Total</h1><p>a <b>bold</b> word 漢🤨</p>"
        "<button>Add</button><input aria-label='Item' /><svg width='90' height='40'>"
        "<text x='5' y='20'>Chart</text></svg></main>;",
    )
    assert faults(seen) == {}
    assert seen.now.text == "Total a bold word 漢🤨 Add Chart"
    assert {("heading", "Total"), ("button", "Add"), ("textbox", "Item")} <= set(seen.now.roles)
    assert seen.tags["button"] == seen.tags["h1"] == 1 and "body" not in seen.tags


ABSOLUTE = "position: 'absolute', top: 40"
MODAL = "position: 'fixed', inset: 0, background: '#fff'"


@pytest.mark.browser
@pytest.mark.parametrize(
    ("inside", "want"),
    [
        ("<p style={{ color: '#bbb' }}>pale</p>", {"contrast": 1}),
        ("<p style={{ color: '#fff' }}>white</p>", {"text": 1}),
        ("<p style={{ fontSize: 6 }}>tiny</p>", {"text": 1}),
        ("<button />", {"names": 1}),
        ("<img src='data:,' />", {"names": 1}),
        ("<div role='nonsense'>x</div>", {"names": 1}),
        ("<div style={{ width: 1500 }}>wide</div>", {"overflow": 1}),
        (
            "<p style={{ width: 60, overflow: 'hidden', whiteSpace: 'nowrap' }}>cut off here</p>",
            {"clipping": 1},
        ),
        (
            f"<i style={{{{ {ABSOLUTE}, left: 9 }}}}>first</i>"
            f"<b style={{{{ {ABSOLUTE}, left: 12 }}}}>other</b>",
            {"overlap": 2},
        ),
        (
            f"<button style={{{{ {ABSOLUTE}, left: 9, width: 80 }}}}>A</button>"
            f"<button style={{{{ {ABSOLUTE}, left: 60, width: 80 }}}}>B</button>",
            {"overlap": 2},
        ),
        # and what is meant so
        ("<p style={{ opacity: 0 }}>for hover</p>", {}),
        ("<p style={{ position: 'absolute', left: -9999 }}>for screen readers</p>", {}),
        ("<p className='sr-only'>for screen readers</p>", {}),
        ("<p hidden>later</p>", {}),
        ("<div className='w-16 truncate'>cut off with dots</div>", {}),
        (
            "<div style={{ height: 50, overflow: 'auto' }}><p style={{ height: 900 }}>x</p>y</div>",
            {},
        ),
        (
            "<div style={{ width: 300, overflowX: 'auto' }}><p style={{ width: 1500 }}>x</p></div>",
            {},
        ),
        (f"<div style={{{{ {MODAL} }}}}>over all</div>", {"text": 1}),
        ("<label style={{ lineHeight: 1 }}>one<br />two</label>", {}),
        ("<div style={{ paddingTop: 6000 }}>far below</div>", {}),
    ],
)
def test_each_fault_is_found_once_and_what_is_meant_so_is_none(
    browser: ReactBrowser, inside: str, want: dict[str, int]
) -> None:
    assert faults(look(browser, f"return <main><p>Hello</p>{inside}</main>;")) == want


@pytest.mark.browser
def test_a_blemish_points_at_the_element_that_was_written_there(browser: ReactBrowser) -> None:
    body = (
        "const s = '🤨é漢'; return <main>漢{[1, 2].map((n) => <p key={n}\n"
        " style={{ color: '#bbb' }}>pale</p>)}</main>;"
    )
    source = f"{HEAD}\nexport default function App() {{ {body} }}\n"
    _, result = asyncio.run(browser.render(source, ROLES))
    assert result is not None and result.inspection is not None
    check = result.inspection.checks["contrast"]
    lines = source.split("\n")
    line = next(i for i, text in enumerate(lines) if "<p key" in text)
    column = len(lines[line][: lines[line].index("<p key")].encode("utf-16-le")) // 2
    assert [blemish.place for blemish in check.blemishes] == [(line + 1, column + 1)] * 2


@pytest.mark.browser
def test_steps_are_done_with_real_events_and_leave_their_states(browser: ReactBrowser) -> None:
    body = (
        "const [items, set] = useState([]); const [text, type] = useState('');"
        " const add = (event) => { if (!event.isTrusted && !event.nativeEvent.isTrusted) return;"
        " setTimeout(() => set([...items, text]), 700); };"
        " return <main><input aria-label='Item' value={text} onChange={(e) => type(e.target.value)}"
        " onKeyDown={(e) => e.key === 'Escape' && type('')} />"
        "<button onClick={add}>Add it</button><button onClick={() => missing()}>Break</button>"
        "<ol>{items.map((item) => <li key={item}>{item}</li>)}</ol><p>typed {text}</p></main>;"
    )
    steps = (
        (Action("fill", "textbox", "item", "milk"), Action("click", "button", "ADD")),
        (Action("press", text="Escape"),),
        (Action("click", "button", "Break"),),
        (Action("click", "button", "nowhere"),),
        (Action("fill", "textbox", "Item", "eggs"),),
    )
    states = look(browser, body, wish=Wish(True, steps)).states
    assert "milk typed milk" in states[0].text and states[0].problem == ""
    assert ("listitem", "") in states[0].roles
    assert states[1].problem == ""
    assert "missing is not defined" in states[2].problem
    assert states[3].problem == 'no button named "nowhere"' and states[3].text == ""
    assert "typed eggs" in states[4].text


@pytest.mark.browser
def test_a_click_that_never_ends_is_a_hang(browser: ReactBrowser) -> None:
    body = "return <button onClick={() => { for (;;); }}>Go</button>;"
    assert page(browser, body, wish=Wish(True, ((Action("click", "button", "Go"),),))).status == (
        "hang"
    )


@pytest.mark.browser
@pytest.mark.parametrize(
    "away", ["location = '/x'", "open('/x')", "alert(1)", "document.forms[0].submit()"]
)
def test_a_click_that_would_leave_stays(browser: ReactBrowser, away: str) -> None:
    button = f"<button onClick={{() => {{ {away} }}}}>Go</button>"
    body = f"return <><form action='/y' /><p>here</p>{button}</>;"
    states = look(browser, body, wish=Wish(True, ((Action("click", "button", "Go"),),))).states
    assert states[0].text == "here Go"


# Pages that forge what is seen, hide text or rewrite their places are attacks: hostile_pages.toml.


@pytest.mark.browser
def test_a_page_of_too_many_elements_is_not_looked_at(browser: ReactBrowser) -> None:
    many = "<>{Array.from({ length: 3100 }, (_, i) => <i key={i}>x</i>)}</>"
    result = page(browser, f"return {many};")
    assert result.status == "ok"
    assert result.inspection == Inspection(False)


@pytest.mark.browser
def test_elements_are_looked_at_500_in_each_other_and_no_deeper(browser: ReactBrowser) -> None:
    # html, body and the root are above them, a paragraph is inside
    nested = "let e = <p>x</p>; for (let i = 0; i < %d; i++) e = <div>{e}</div>; return e;"
    assert look(browser, nested % 496).complete
    assert page(browser, nested % 497).inspection == Inspection(False)


@pytest.mark.browser
def test_fields_named_like_what_leads_upwards_do_not_make_a_page_deep(
    browser: ReactBrowser,
) -> None:
    fields = "<form><input name='parentNode' aria-label='a' /></form>"
    assert look(browser, f"return {fields};").complete


@pytest.mark.browser
def test_the_largest_page_that_is_looked_at_does_not_run_out_of_time(
    browser: ReactBrowser,
) -> None:
    cell = "<td key={i}><button style={{ color: '#bbb' }}>no {i}</button></td>"
    of = "Array.from({ length: %d }, (_, i) => %s)"
    rows = of % (100, f"<tr key={{i}}>{{{of % (14, cell)}}}</tr>")
    seen = look(browser, f"return <table><tbody>{{{rows}}}</tbody></table>;")
    assert seen.checks["contrast"].bad == 1400
    assert len(seen.checks["contrast"].blemishes) == 30


@pytest.mark.browser
@pytest.mark.parametrize(
    ("body", "status"),
    [("return <Foo />;", "runtime_error"), ("return <div />;", "blank")],
)
def test_a_page_that_fails_keeps_its_verdict(browser: ReactBrowser, body: str, status: str) -> None:
    assert page(browser, body).status == status


@pytest.mark.browser
def test_a_page_that_is_looked_at_has_the_same_picture_and_verdict(browser: ReactBrowser) -> None:
    body = (
        "const [n] = useState(3); return <main className='p-4'><h1>Hi</h1><svg width='9' /></main>;"
    )
    source = f"{HEAD}\nexport default function App() {{ {body} }}\n"
    _, plain = asyncio.run(browser.render(source))
    _, seen = asyncio.run(browser.render(source, ROLES))
    assert plain is not None and seen is not None
    assert (plain.status, plain.png, plain.text) == (seen.status, seen.png, seen.text)
    assert plain.inspection is None and seen.inspection is not None


def each(check: dict) -> dict:
    """The same answer for every check."""
    return {name: dict(check) for name in CHECKS}


CHECK = {"bad": 1, "total": 2, "findings": [{"message": "m", "place": "3:4"}]}
RIGHT = {
    "complete": True,
    "text": "\ud83d",
    "roles": [{"role": "button", "name": "Add"}],
    "tags": [["p", 1]],
    "checks": each(CHECK),
    "states": [{"text": "", "roles": [], "problem": ""}],
}


def test_a_reply_is_read_and_its_text_can_be_written_down() -> None:
    found = read(RIGHT)
    assert found.now.text == "?" and found.checks["text"].blemishes[0].place == (3, 4)


@pytest.mark.parametrize(
    "broken",
    [
        *({"text": 5}, {"roles": [{}]}, {"tags": [["p", -1]]}, {"tags": [1]}, {"checks": {}}),
        *({"states": None}, {"checks": each({**CHECK, "bad": 3})}),
        {"checks": each({**CHECK, "total": float("inf")})},
        {"checks": each({**CHECK, "findings": [{"message": 1, "place": None}]})},
        {"states": [{"text": "", "roles": [], "problem": True}]},
    ],
)
def test_an_inspection_of_another_form_is_no_verdict(broken: dict) -> None:
    reply = {"status": "ok", "reason": "", "png": None, "text": "", "nodes": 1, "height": 1}
    reply |= {"errors": [], "console": [], "notes": []}
    assert browser_module._page(Attempted({**reply, "inspection": RIGHT})).status == "ok"
    hostile = {**reply, "inspection": {**RIGHT, **broken}}
    assert browser_module._page(Attempted(hostile)).status == "infra_error"


@pytest.mark.parametrize(
    ("place", "want"),
    [
        *(("3:4", (3, 4)), (None, None), ("", None), ("3", None), ("3:", None), ("-3:4", None)),
        *(("3:4:5", None), ("²:4", None), ("99999999:1", None), (" 3:4", None), ("3.0:4", None)),
    ],
)
def test_a_place_is_two_numbers_or_none(place: str | None, want: tuple[int, int] | None) -> None:
    finding = {"message": "m", "place": place}
    checks = each({"bad": 1, "total": 1, "findings": [finding]})
    found = read({**RIGHT, "checks": checks})
    assert found.checks["text"].blemishes[0].place == want


def test_a_wish_is_plain_data() -> None:
    wish = Wish(True, ((Action("press", text="Enter"),),))
    assert json.loads(json.dumps(wish.request())) == {
        "roles": True,
        "steps": [[{"kind": "press", "role": "", "name": "", "text": "Enter"}]],
    }
    assert len(set(itertools.chain(*wish.request()["steps"][0]))) == 4
