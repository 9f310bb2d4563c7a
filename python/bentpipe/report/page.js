// Draw the figures in the width of the window and the colours of the page; redraw if either changes.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const configs = read("configs");
  const darkColours = read("dark-colours"); // dark colour of each light one in the specifications
  const runs = document.getElementById("runs") && read("runs");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const PAPER = 650; // A4 between its margins, CSS pixels
  const NUMBERED = 980; // drawing of a figure with numbers in cells, which paper shrinks; narrower cells have no numbers
  const AXIS = 84; // width of an axis beside a panel, labels and title
  const GAP = 20; // between the panels of a facet grid, as Vega-Lite's default
  const LEAST = { facet: 180, concat: 240 }; // narrowest readable panel of a facet grid and of a concatenation, pixels
  const NUMBER = { roomy: 32, least: 24, small: 9 }; // number in a cell: widths of the cell and small font size
  let chosen = "0";

  const textOf = (box) =>
    document.getElementById(`spec-${box.dataset.key}-${chosen}`) || document.getElementById(`spec-${box.dataset.key}-0`);

  // Number of panels in the widest row of a specification, and the width of the row.
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

  // Return the width of the axis beside a panel; a title may have lines, and names are longer than numbers.
  function side(panel) {
    const { y } = (panel.layer || [panel])[0].encoding || {};
    const names = y && Array.isArray(y.sort) ? y.sort : [];
    const lines = y && Array.isArray(y.title) ? y.title.length : 1;
    return 56 + 16 * lines + Math.max(0, -48 + Math.min(180, 6.2 * Math.max(0, ...names.map((name) => name.length))));
  }

  // Fill `room` pixels with the panels of a facet grid, in rows of equal numbers.
  function fill(spec, room) {
    const each = spec.resolve && spec.resolve.scale && spec.resolve.scale.y === "independent";
    const axes = (columns) => side(spec.spec) * (each ? columns : 1) + GAP * (columns - 1);
    const panels = (Array.isArray(spec.facet.sort) && spec.facet.sort.length) || spec.columns || 1;
    let columns = Math.min(spec.columns || panels, panels);
    while (columns > 1 && axes(columns) + columns * LEAST.facet > room) columns -= 1;
    spec.columns = Math.ceil(panels / Math.ceil(panels / columns));
    spec.spec.width = Math.max(LEAST.facet, Math.floor((room - axes(spec.columns)) / spec.columns));
  }

  // Fit a specification into `room` pixels: panels of facets fill it; others, if `tight`, have fewer panels in a row
  // and then narrower ones.
  function fit(spec, room, tight) {
    if (spec.vconcat) spec.vconcat.forEach((part) => fit(part, room, tight));
    else if (spec.facet && typeof spec.spec.width === "number") fill(spec, room);
    else if (!tight) return spec;
    else if (spec.hconcat && across(spec).width > room) {
      spec.concat = spec.hconcat;
      spec.columns = spec.concat.length;
      delete spec.hconcat;
      fit(spec, room, tight);
    } else if (spec.concat || spec.facet) {
      if (across(spec).width > room) {
        const inner = spec.facet ? [spec.spec] : spec.concat;
        const columns = Math.max(1, Math.min(spec.columns || inner.length, Math.floor(room / (LEAST[spec.facet ? "facet" : "concat"] + AXIS))));
        spec.columns = columns;
        const longest = Math.max(AXIS, ...inner.map(side)); // panels are aligned, so the longest labels take room from each
        inner.forEach((part) => fit(part, room / columns - (longest - AXIS), tight));
      }
    } else if (typeof spec.width === "number") {
      spec.width = Math.max(LEAST.facet, Math.min(spec.width, Math.floor(room - AXIS)));
      if (spec.layer) spec.layer = spec.layer.filter((layer) => numbered(layer, spec.width));
    }
    return spec;
  }

  // Shrink the numbers of N cells in a row (style `of-N`) if they would overlap; return whether they fit.
  function numbered(layer, width) {
    const beside = /^of-(\d+)$/.exec(layer.mark && layer.mark.style);
    if (!beside) return true;
    const cell = width / beside[1];
    if (cell < NUMBER.roomy) layer.mark.fontSize = NUMBER.small;
    return cell >= NUMBER.least;
  }

  function colours(room, name) {
    const config = structuredClone(configs[name]);
    if (room < 600) Object.assign(config.legend, { direction: "vertical", columns: 1, labelLimit: room - 60, gradientLength: room - 120 });
    return config;
  }

  // Return the parsed specification in the colours `name`.
  function specification(text, name) {
    const colour = (light) => (name === "dark" && darkColours[light]) || light;
    return JSON.parse(text.textContent.replace(/#[0-9A-F]{6}\b/g, colour));
  }

  // Draw the chosen figure of `box` into `place`, `room` pixels wide, in the colours `name`, unless already drawn.
  async function drawn(box, place, room, name, text = textOf(box)) {
    const state = `${text.id} ${name} ${room}`;
    if (place.dataset.state === state) return;
    place.dataset.state = state;
    const spec = specification(text, name);
    const shown = await window.vegaEmbed(place, fit(spec, room, across(spec).width > room + AXIS), {
      mode: "vega-lite",
      renderer: "svg",
      config: colours(room, name),
      actions: place === box && { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
      downloadFileName: text.id.slice(5),
    });
    place.classList.add("drawn");
    if (place === box && runs && box.parentElement.querySelector(".again")) {
      box.classList.add("asked");
      shown.view.addEventListener("click", (event, item) => asked(box, event, item));
    }
  }

  // --- run of a line, and the command that repeats it ---

  // Return the lines of a panel; marks may be in groups by colour.
  const linesOf = (group) =>
    group.items.flatMap((mark) => (mark.marktype === "line" ? [mark.items] : mark.marktype === "group" ? mark.items.flatMap(linesOf) : []));

  // Return the distance of (x, y) from a segment of a line.
  function away(x, y, from, to) {
    const [dx, dy] = [to.x - from.x, to.y - from.y];
    const along = Math.max(0, Math.min(1, ((x - from.x) * dx + (y - from.y) * dy) / (dx * dx + dy * dy || 1)));
    return Math.hypot(x - from.x - along * dx, y - from.y - along * dy);
  }

  // Return the point of a panel's lines nearest to (x, y): the nearer end of the nearest segment.
  function nearest(group, x, y) {
    let [least, found] = [Infinity, null];
    for (const items of linesOf(group)) {
      const points = items.filter((item) => item.defined !== false && Number.isFinite(item.y) && runs[item.datum.run]);
      points.forEach((to, index) => {
        const from = points[Math.max(0, index - 1)];
        const distance = away(x, y, from, to);
        if (distance < least) [least, found] = [distance, Math.abs(x - from.x) < Math.abs(x - to.x) ? from : to];
      });
    }
    return found;
  }

  function asked(box, event, item) {
    let group = item;
    while (group && group.mark.marktype !== "group") group = group.mark.group;
    const place = group && group._svg && group._svg.getScreenCTM();
    if (!place) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(place.inverse());
    if (at.x < 0 || at.y < 0 || at.x > group.width || at.y > group.height) return; // a legend, a title
    const point = nearest(group, at.x, at.y);
    const run = point && runs[point.datum.run];
    if (!run) return;
    document.querySelectorAll(".picked").forEach((mark) => mark.remove());
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    const drawing = { class: "picked", cx: point.x, cy: point.y, r: 4 };
    Object.entries(drawing).forEach(([name, value]) => mark.setAttribute(name, value));
    group._svg.append(mark);
    const [again, said] = [box.parentElement.querySelector(".again"), `${run.called}, at ${point.datum.time_s} s.`];
    again.querySelector("p").textContent = `${said} This command repeats the run with a packet trace:`;
    again.querySelector("pre").textContent = run.command;
    again.querySelector("button").textContent = "Copy";
    again.hidden = false;
  }

  for (const button of document.querySelectorAll(".again button")) {
    const text = button.previousElementSibling;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "Copied";
      } catch {
        // Without access to the clipboard, select the text instead.
        window.getSelection().selectAllChildren(text);
        button.textContent = document.execCommand("copy") ? "Copied" : "Selected: copy it";
      }
    });
  }

  const draw = (box) => drawn(box, box, Math.floor(box.clientWidth), dark.matches ? "dark" : "light");

  // Paper shows every figure, light and in the width of the paper, even if it was never visible. A browser prints when
  // the promises of this function have settled, so it must not wait for a timer.
  const drawPapers = () =>
    boxes.forEach((box) => {
      const text = document.getElementById(`spec-${box.dataset.key}-paper`) || textOf(box);
      const room = text.textContent.includes('"style":"of-') ? NUMBERED : PAPER;
      drawn(box, box.nextElementSibling, room, "light", text);
    });

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

  window.addEventListener("beforeprint", drawPapers);
  window.matchMedia("print").addEventListener("change", (event) => event.matches && drawPapers());

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
