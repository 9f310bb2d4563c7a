// Draws a figure when it comes near the window, in the colours of the page; redraws when those change.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const configs = read("configs");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = "0";

  const specOf = (box) =>
    document.getElementById(`spec-${box.dataset.key}-${chosen}`) || document.getElementById(`spec-${box.dataset.key}-0`);

  async function draw(box) {
    const text = specOf(box);
    const state = `${text.id} ${dark.matches}`;
    if (box.dataset.state === state) return;
    box.dataset.state = state;
    await window.vegaEmbed(box, JSON.parse(text.textContent), {
      mode: "vega-lite",
      renderer: "svg",
      config: configs[dark.matches ? "dark" : "light"],
      actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
      downloadFileName: text.id.slice(5),
    });
    box.classList.add("drawn");
  }

  const boxes = [...document.querySelectorAll(".figure")];
  const near = new Set();
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) {
          near.add(entry.target);
          draw(entry.target);
        } else near.delete(entry.target);
      }
    },
    { rootMargin: "600px" },
  );
  for (const box of boxes) {
    watch.observe(box);
    if (box.getBoundingClientRect().top < window.innerHeight + 600) draw(box);
  }
  dark.addEventListener("change", () => near.forEach(draw));
  window.addEventListener("beforeprint", () => boxes.forEach(draw));

  for (const button of document.querySelectorAll(".choice button")) {
    button.addEventListener("click", () => {
      chosen = button.dataset.variant;
      for (const other of document.querySelectorAll(".choice button")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
      near.forEach(draw);
    });
  }
})();
