// Filters for the rollout browser and a token cursor for the keyboard. The page is whole without it.
"use strict";
(() => {
  const browser = document.getElementById("rollouts");
  if (!browser) return;
  const panels = [...browser.querySelectorAll("article")];
  const filters = [...browser.querySelectorAll("select")];
  const count = document.getElementById("shown");

  function show() {
    let n = 0;
    for (const panel of panels) {
      const fits = filters.every((f) => f.value === "" || panel.dataset[f.name] === f.value);
      panel.hidden = !fits;
      n += fits;
    }
    count.textContent = n === 1 ? "1 rollout" : n + " rollouts";
  }
  for (const filter of filters) filter.addEventListener("change", show);
  browser.querySelector(".filters").hidden = false;
  show();

  function select(token) {
    const block = token.closest(".tokens");
    block.querySelector(".at")?.classList.remove("at");
    token.classList.add("at");
    block.nextElementSibling.textContent = JSON.stringify(token.textContent) + " · " + token.title;
  }
  browser.addEventListener("click", (event) => {
    const token = event.target.closest(".tokens i");
    if (token) select(token);
  });
  browser.addEventListener("keydown", (event) => {
    if (!event.target.classList.contains("tokens")) return;
    const move = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const tokens = [...event.target.querySelectorAll("i")];
    const here = tokens.findIndex((t) => t.classList.contains("at"));
    const next = Math.max(0, Math.min(tokens.length - 1, here + move));
    if (tokens[next]) select(tokens[next]);
  });
})();
