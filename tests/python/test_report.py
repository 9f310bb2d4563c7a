"""The page: whole, small, and without a network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import synthetic_pages
from bentpipe.api.results import Results
from bentpipe.figures import sweep_plots
from bentpipe.figures.export import FigureExport
from bentpipe.figures.registry import FIGURES, FigureContext, write_figures
from bentpipe.figures.sweep_dimensions import Dimension
from bentpipe.metrics.compute import bottlenecks
from bentpipe.metrics.summary_table import summary_rows
from bentpipe.report import notebook, store_page, tables
from bentpipe.report.page import rendered
from bentpipe.store.reader import open_store

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="module")
def page(synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("report")
    store = synthetic.rivals_store(base / "rivals", duration_s=20.0)
    return store_page.write_report(store)


def test_the_page_is_beside_the_store_and_small(page: Path) -> None:
    assert page.name == "report.html"
    assert page.parent.name == "rivals"
    assert page.stat().st_size < 5_000_000


def test_nothing_is_loaded_from_elsewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.findall(r"<(?:link|iframe|img|object|embed)\b", text.split("<script>", maxsplit=1)[0])
    assert not re.findall(r"<script[^>]+\bsrc=", text)
    assert not re.findall(r"@import|url\(\s*['\"]?https?:", text.split("</style>", maxsplit=1)[0])
    for spec in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL):
        assert "http" not in spec
    # The names of XML and of schemas in the library are names, not addresses to load from.
    names = {"http://www.w3.org", "https://vega.github.io", "https://github.com"}
    assert {
        re.sub(r"^(https?://[^/]+).*", r"\1", url) for url in re.findall(r"https?://[^\s\"'`)]+", text)
    } <= names


def test_it_says_what_it_rests_on(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "Provenance" in text
    assert "1.2.3" in text
    assert "48 finished of 48 planned" in text
    assert "name = &#34;a&lt;b&#34;" in text
    assert "48\u00a0runs: 16\u00a0cells, 3\u00a0seeds" in text


def test_every_box_has_its_figure(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    boxes = re.findall(r'class="figure" data-key="([a-z-]+)"', text)
    specs = dict(
        re.findall(r'<script type="application/json" id="spec-([a-z0-9-]+)">(.*?)</script>', text, re.DOTALL)
    )
    assert boxes[0] == "goodput-shares"
    assert {f"{box}-0" for box in boxes} <= set(specs)
    assert "cwnd-1" in specs, "the second loss rate can be chosen"
    for spec in specs.values():
        json.loads(spec)


def test_unfinished_runs_are_reported(synthetic: ModuleType, tmp_path: Path) -> None:
    store = synthetic.sizes_store(tmp_path / "sizes")
    shutil.rmtree(next((store / "runs").iterdir()))
    text = store_page.write_report(store, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "1 of 6 planned runs have not finished" in text
    assert "completion, median" in text


def test_figures_as_vectors(synthetic: ModuleType, tmp_path: Path) -> None:
    store = synthetic.write_store(tmp_path / "one", [({}, 1, [synthetic.Flow("a")], {})])
    files = write_figures(store, FigureExport(tmp_path / "figures", forms=("pdf",)), (0.0, 10.0))
    assert {file.suffix for file in files} == {".pdf"}
    assert all(file.stat().st_size > 1000 for file in files)


def test_the_terminal_and_the_page_write_a_number_alike(synthetic: ModuleType, tmp_path: Path) -> None:
    shares = [(5.0, 4.0), (5.2, 3.9), (5.066, 4.1)]
    store = synthetic.pair_store(tmp_path / "pair", shares)
    _, rows, _ = summary_rows(store)
    message = {row["goodput Mbit/s"] for row in rows}
    assert all(" ± " in one for one in message)
    page = store_page.write_report(store).read_text(encoding="utf-8")
    written = re.findall(r"<td>([0-9.]+) <small>(±\u00a0[0-9.]+)</small>", page)
    assert message <= {" ".join(one).replace("\u00a0", " ") for one in written}


def test_tables_end_somewhere(synthetic: ModuleType, tmp_path: Path) -> None:
    """A page shows the first of a hundred thousand cells, and the number of the others."""
    material = FigureContext(open_store(synthetic.rivals_store(tmp_path / "rivals", seeds=1, duration_s=5.0)))
    whole, part = tables.results(material), tables.results(material, most=5)
    assert (len(whole.rows), whole.more) == (32, 0)
    assert (part.rows, part.more) == (whole.rows[:5], 27)
    links = tables.links(material, most=3)
    assert links.rows == tables.links(material).rows[:3]
    assert links.more == len(tables.links(material).rows) - 3
    message = rendered("report/notebook.html", title="", lead="", tables=[part], figure=None)
    assert "… and 27 more rows" in message


def test_a_figure_of_very_many_values_shows_some_and_says_so(
    synthetic: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(synthetic.matrix_store(tmp_path / "matrix", seeds=1, rates=(10,), duration_s=2.0))
    whole = FIGURES["goodput-by-parameter"](FigureContext(store))
    monkeypatch.setattr(sweep_plots, "MAX_AXIS_VALUES", 2)
    some = FIGURES["goodput-by-parameter"](FigureContext(store))
    assert whole is not None
    assert some is not None
    assert "values of loss" not in whole.caption
    assert "2 of 4 values of loss" in some.caption
    assert some.rows < whole.rows
    many = Dimension("delay", ("d",), tuple(f"{i} ms" for i in range(100)), "delay")
    assert many.values_text == "0 ms to 99 ms (100 values)"


def test_results_show_themselves_in_a_notebook(synthetic: ModuleType, tmp_path: Path) -> None:
    store = synthetic.pair_store(tmp_path / "pair", [(5.0, 4.0), (5.2, 3.9)])
    html = notebook.html(store)
    assert "<svg" in html
    assert "Jain" in html
    assert "<script" not in html


def test_loads_of_pages_show_themselves_in_a_notebook(synthetic: ModuleType, tmp_path: Path) -> None:
    store = synthetic_pages.page_store(tmp_path / "pages", synthetic, seeds=6, packets=False)
    html = notebook.html(store)
    assert "TTR, median" in html
    assert "PLT, median" in html
    assert "page load time, s" in html.replace("\u00a0", " ")


def test_results_without_a_finished_run_say_so_in_a_notebook(synthetic: ModuleType, tmp_path: Path) -> None:
    store = synthetic.pair_store(tmp_path / "pair", [(5.0, 4.0)])
    (tmp_path / "kept").mkdir()
    for run in (store / "runs").iterdir():
        run.rename(tmp_path / "kept" / run.name)
    html = Results(store)._repr_html_()
    assert html is not None
    assert "Two flows share a link" in html
    assert "no run has finished (1 are planned)" in html


CLICK = """<script>setTimeout(() => {
  const line = document.querySelector('.figure[data-key="cwnd"] .mark-line').getBoundingClientRect();
  const [clientX, clientY] = [line.left + line.width / 2, line.top + line.height / 2];
  const under = document.elementFromPoint(clientX, clientY);
  under.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX, clientY, view: window }));
}, 5000);</script></body>"""


def test_a_browser_draws_it(page: Path, tmp_path: Path) -> None:
    """Headless Chromium, when there is one: the key figure is there as SVG, a click has its answer, nothing failed."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    clicked = tmp_path / "page.html"
    clicked.write_text(CLICK.join(page.read_text(encoding="utf-8").rsplit("</body>", 1)), encoding="utf-8")
    done = subprocess.run(
        [chromium, "--headless", "--window-size=1000,9000", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path}",
         "--virtual-time-budget=20000", "--dump-dom", "--enable-logging=stderr", clicked.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "mark-symbol" in done.stdout
    again = re.search(
        r'<div class="again" aria-live="polite"><p class="caption">(.*?)</p><pre>(.*?)</pre>', done.stdout
    )
    assert again is not None, "a command that is shown"
    assert re.search(r"seed 1, at [0-9.]+ s", again[1])
    assert again[2].startswith(f"bentpipe export {page.parent} --format pcapng --run ")
    assert "CONSOLE" not in done.stderr


def test_links_stand_in_the_order_of_the_sweep(synthetic: ModuleType, tmp_path: Path) -> None:
    """Runs are directories named by a hash: that order must not be seen."""
    material = FigureContext(open_store(synthetic.rivals_store(tmp_path / "rivals", duration_s=5.0)))
    links = bottlenecks(material.links)["run"].unique(maintain_order=True).to_list()
    assert links == material.store.index["run"].to_list()
    assert links != sorted(links), "a store in which the two orders differ"
