// Draws the figures, as wide as the window lets them be, in the colours of the page; redraws when those change.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const configs = read("configs");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const PAPER = 650; // A4 between its margins, CSS pixels
  const AXIS = 84; // beside a panel: labels and title of an axis
  const LEAST = { facet: 180, concat: 240 }; // narrower panels cannot be read: small multiples, and panels of their own
  let chosen = "0";

  const textOf = (box) =>
    document.getElementById(`spec-${box.dataset.key}-${chosen}`) || document.getElementById(`spec-${box.dataset.key}-0`);

  // Panels side by side, widest row of a specification; and how wide they are together.
  function across(spec) {
    const inner = spec.hconcat || spec.concat || spec.vconcat;
    if (spec.facet) {
      const columns = spec.columns || 1;
      return { columns, width: columns * ((spec.spec.width || 300) + AXIS) };
    }
    if (!inner) return { columns: 1, width: (spec.width || 300) + AXIS };
    const parts = inner.map(across);
    const side = spec.hconcat ? parts.length : spec.concat ? Math.min(parts.length, spec.columns || parts.length) : 1;
    const widest = Math.max(...parts.map((part) => part.width));
    return { columns: side * Math.max(...parts.map((part) => part.columns)), width: side * widest };
  }

  // A specification in `room` pixels: fewer panels side by side, then narrower ones.
  function fit(spec, room) {
    if (spec.vconcat) spec.vconcat.forEach((part) => fit(part, room));
    else if (spec.hconcat && across(spec).width > room) {
      spec.concat = spec.hconcat;
      spec.columns = spec.concat.length;
      delete spec.hconcat;
      fit(spec, room);
    } else if (spec.concat || spec.facet) {
      if (across(spec).width > room) {
        const inner = spec.facet ? [spec.spec] : spec.concat;
        const columns = Math.max(1, Math.min(spec.columns || inner.length, Math.floor(room / (LEAST[spec.facet ? "facet" : "concat"] + AXIS))));
        spec.columns = columns;
        inner.forEach((part) => fit(part, room / columns));
      }
    } else if (typeof spec.width === "number") spec.width = Math.max(LEAST.facet, Math.min(spec.width, Math.floor(room - AXIS)));
    return spec;
  }

  function colours(room, name) {
    const config = structuredClone(configs[name]);
    if (room < 600) Object.assign(config.legend, { direction: "vertical", columns: 1, labelLimit: room - 60, gradientLength: room - 120 });
    return config;
  }

  // Draws the chosen figure of `box` into `place`, `room` pixels wide, in the colours called `name`, unless it is there.
  async function drawn(box, place, room, name) {
    const text = textOf(box);
    const state = `${text.id} ${name} ${room}`;
    if (place.dataset.state === state) return;
    place.dataset.state = state;
    const spec = JSON.parse(text.textContent);
    await window.vegaEmbed(place, across(spec).width > room + AXIS ? fit(spec, room) : spec, {
      mode: "vega-lite",
      renderer: "svg",
      config: colours(room, name),
      actions: place === box && { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
      downloadFileName: text.id.slice(5),
    });
    place.classList.add("drawn");
  }

  const draw = (box) => drawn(box, box, Math.floor(box.clientWidth), dark.matches ? "dark" : "light");

  // On paper every figure is there, light and as wide as the paper, whether or not it was looked at. Drawing takes
  // longer than a browser waits before it prints, so it is done beforehand, one at a time.
  async function drawPapers() {
    for (const box of boxes) {
      await new Promise((resume) => setTimeout(resume));
      await drawn(box, box.nextElementSibling, PAPER, "light");
    }
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
  let later = 0;
  window.addEventListener("resize", () => {
    clearTimeout(later);
    later = setTimeout(() => near.forEach(draw), 150);
  });

  drawPapers();

  for (const button of document.querySelectorAll(".choice button")) {
    button.addEventListener("click", () => {
      chosen = button.dataset.variant;
      for (const other of document.querySelectorAll(".choice button")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
      near.forEach(draw);
      drawPapers();
    });
  }
})();
