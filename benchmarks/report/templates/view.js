// Filter, order, and what a token or span says. The page is whole without it.
"use strict";
(() => {
  const list = document.getElementById("list");
  const rollouts = [...list.querySelectorAll(".rollout")];
  const filters = document.querySelector(".filters");
  const [verdict, order] = filters.querySelectorAll("select");
  const changed = filters.querySelector("input");

  function show() {
    const rank = { file: () => 0, low: (v) => v, high: (v) => -v }[order.value];
    const key = (r) => (order.value === "file" ? 0 : r.dataset.outcome === "" ? Infinity : rank(+r.dataset.outcome));
    rollouts.sort((a, b) => { const [x, y] = [key(a), key(b)]; return x < y ? -1 : x > y ? 1 : a.dataset.at - b.dataset.at; });
    let n = 0;
    for (const rollout of rollouts) {
      const fits = (verdict.value === "" || rollout.dataset.verdict === verdict.value)
        && !(changed && changed.checked && !rollout.dataset.changed);
      rollout.hidden = !fits;
      n += fits;
    }
    list.append(...rollouts);
    document.getElementById("shown").textContent = n === 1 ? "1 rollout" : n + " rollouts";
  }
  filters.addEventListener("change", show);
  filters.addEventListener("click", (event) => {
    const name = event.target.name;
    if (name !== "open" && name !== "close") return;
    for (const rollout of rollouts) if (!rollout.hidden) rollout.open = name === "open";
  });
  filters.hidden = false;
  show();

  const tip = document.getElementById("tip");
  let closing = 0;
  let anchor = null;
  let pointerX = 0;

  function lines(at) {
    const token = at.closest("i");
    const mark = at.closest("mark");
    const found = [];
    if (token) found.push(JSON.stringify(token.dataset.t || token.textContent) + " · local value " + (token.dataset.v || "0"));
    const ids = mark ? mark.getAttribute("aria-describedby").trim().split(" ") : [];
    for (const id of ids) {
      const parts = [...document.getElementById(id).childNodes].filter((n) => n.nodeName !== "CODE");
      found.push(parts.map((n) => n.textContent).join("").trim());
    }
    return found;
  }
  function point(at, x = 0) {
    const found = lines(at);
    if (!found.length) return hide();
    clearTimeout(closing);
    tip.replaceChildren(...found.map((text, k) => {
      const line = document.createElement("p");
      line.textContent = text;
      if (k === 0 && at.closest("i")) line.className = "token";
      return line;
    }));
    tip.hidden = false;
    [anchor, pointerX] = [at, x];
    place();
  }
  function place() {
    if (tip.hidden) return;
    const boxes = [...anchor.getClientRects()];
    const box = boxes.find((b) => pointerX >= b.left && pointerX <= b.right) || boxes[0];
    if (!box) return hide();
    const below = box.bottom + 6 + tip.offsetHeight <= innerHeight;
    tip.style.left = Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(8, below ? box.bottom + 6 : box.top - 6 - tip.offsetHeight) + "px";
  }
  function hide() { tip.hidden = true; }
  function soon() { clearTimeout(closing); closing = setTimeout(hide, 250); }

  list.addEventListener("pointerover", (event) => {
    const at = event.target.closest(".tokens i, .tokens mark");
    if (at) point(at, event.clientX); else soon();
  });
  list.addEventListener("pointerleave", soon);
  tip.addEventListener("pointerenter", () => clearTimeout(closing));
  tip.addEventListener("pointerleave", soon);
  list.addEventListener("focusin", (event) => {
    if (event.target.matches("mark")) point(event.target); else hide();
  });
  list.addEventListener("focusout", soon);
  const whole = document.getElementById("whole");
  list.addEventListener("click", (event) => {
    const image = event.target.closest(".shot button")?.firstElementChild;
    if (!image) return;
    whole.replaceChildren(image.cloneNode());
    whole.showModal();
  });
  whole.addEventListener("click", () => whole.close());
  addEventListener("scroll", place, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  list.addEventListener("keydown", (event) => {
    const block = event.target.closest(".tokens");
    const move = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!block || move === undefined) return;
    const tokens = [...block.querySelectorAll("i")];
    if (!tokens.length) return;
    event.preventDefault();
    const here = tokens.findIndex((t) => t.classList.contains("at"));
    const next = tokens[Math.max(0, Math.min(tokens.length - 1, here + move))];
    tokens[here]?.classList.remove("at");
    next.classList.add("at");
    next.scrollIntoView({ block: "nearest" });
    point(next);
    document.getElementById("said").textContent = lines(next).join(". ");
  });
})();
