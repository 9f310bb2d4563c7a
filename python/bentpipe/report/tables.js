// Sort tables by a heading and export them as CSV. Without this script they are static.
(() => {
  const SCALE = { "": 1, n: 1e-9, µ: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9 };
  const NUMBER = /^[<>≤≥~]?\s*([-−+]?[\d,]*\.?\d+(?:[eE][-+]?\d+)?)(?:\s*([nµmkMG]?)(?:s|B|bit\/s|b\/s)(?![a-z]))?/;
  const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

  const said = (nodes) => [...nodes].map((node) => node.textContent).join("").replace(/\s+/g, " ").trim();
  const inside = (cell) => cell.querySelector(":scope > button") || cell;
  const small = (cell) => inside(cell).querySelector(":scope > small");
  const text = (cell) => cell.dataset.again || said([...inside(cell).childNodes].filter((node) => node !== small(cell)));

  // Fill empty leading cells of a row from the row above, so that each row is complete.
  function complete(rows) {
    rows.slice(1).forEach((row, at) => {
      if (row.classList.contains("first")) return;
      for (const [place, cell] of [...row.cells].entries()) {
        if (cell.textContent.trim()) break;
        cell.dataset.again = text(rows[at].cells[place]);
      }
    });
  }

  function key(cell) {
    const word = text(cell);
    const found = word.match(NUMBER);
    if (!word || word === "–") return { rank: 2, number: 0, word };
    if (!found) return { rank: 1, number: 0, word };
    return { rank: 0, number: Number(found[1].replace(/,/g, "").replace("−", "-")) * SCALE[found[2] || ""], word };
  }

  // Sort numbers by size including the prefix of their unit, then texts, then missing values.
  function order(one, two, sign) {
    if (one.rank !== two.rank) return one.rank - two.rank;
    return sign * (one.number - two.number || one.word.localeCompare(two.word, "en", { numeric: true }));
  }

  function sort(table, rows, head) {
    const way = NEXT[head.getAttribute("aria-sort") || "none"];
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    table.classList.toggle("sorted", way !== "none");
    if (way === "none") return table.tBodies[0].append(...rows);
    head.setAttribute("aria-sort", way);
    const sign = way === "ascending" ? 1 : -1;
    const keyed = rows.map((row) => [key(row.cells[head.cellIndex]), row]);
    table.tBodies[0].append(...keyed.sort((one, two) => order(one[0], two[0], sign)).map((one) => one[1]));
  }

  // CSV by RFC 4180. A mean and its interval are separate columns; no cell can become a formula in a spreadsheet.
  function csv(table) {
    const field = (word) => {
      const safe = /^[=+@\t-]/.test(word) && !NUMBER.test(word) ? `'${word}` : word;
      return /[",\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
    };
    const heads = [...table.tHead.rows[0].cells];
    const rows = [...table.tBodies[0].rows];
    const beside = heads.map((_, place) => rows.some((row) => small(row.cells[place])));
    const line = (cells) =>
      cells.flatMap((cell, place) => {
        const words = [text(cell)];
        if (beside[place]) words.push(small(cell) ? said([small(cell)]).replace(/^± /, "") : "");
        return words;
      });
    const first = heads.flatMap((head, place) => {
      const unit = small(head) ? `, ${said([small(head)])}` : "";
      return [text(head) + unit, ...(beside[place] ? [`${text(head)}, interval${unit}`] : [])];
    });
    return [first, ...rows.map((row) => line([...row.cells]))].map((words) => words.map(field).join(",") + "\r\n").join("");
  }

  function name(fold) {
    let at = fold;
    while (at && !/^H[123]$/.test(at.tagName)) at = at.previousElementSibling || at.parentElement.closest("section, body > main");
    const words = `${document.title} ${at ? at.textContent : ""}`;
    return `${words.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80)}.csv`;
  }

  for (const fold of document.querySelectorAll(".fold")) {
    const table = fold.querySelector("table");
    const rows = [...table.tBodies[0].rows];
    complete(rows);
    for (const head of table.tHead.rows[0].cells) {
      if (!head.textContent.trim()) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, rows, head));
    }
    const link = document.createElement("a");
    link.textContent = "CSV";
    link.download = name(fold);
    link.href = "#";
    link.addEventListener("click", () => {
      const address = URL.createObjectURL(new Blob([csv(table)], { type: "text/csv;charset=utf-8" }));
      link.href = address;
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    });
    fold.querySelector("summary").append(link);
  }
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll(".fold:not([open])")];
    folded.forEach((fold) => (fold.open = true));
  });
  addEventListener("afterprint", () => folded.forEach((fold) => (fold.open = false)));
})();
