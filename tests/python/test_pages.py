"""Every page of results in a browser: it fits its window and its paper, follows the reader's colours, and cuts nothing
without a sign."""

from __future__ import annotations

import base64
import csv
import io
import itertools
import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

import every_page
from bentpipe.lab.browser.chromium import Chromium, ChromiumError, find
from bentpipe.lab.browser.devtools import DevTools
from bentpipe.metrics.intervals import format_significant
from bentpipe.report import brief_page
from bentpipe.scenario.quantities import Duration, Size
from nightly import keep
from synthetic_pages import page_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

SOME = keep([next(iter(every_page.FIGURES))], every_page.FIGURES)
"""Pages of every kind, of which one is no nightly test."""

CUT = """[...document.querySelectorAll('main *')].filter(one => {
  if (one.getBoundingClientRect().right <= document.documentElement.clientWidth + 1) return false;
  for (let up = one.parentElement; up; up = up.parentElement)
    if (getComputedStyle(up).overflowX != 'visible') return false;
  return true;
}).map(one => one.tagName + '.' + one.className)"""
"""Elements that extend beyond the window and are in no scrolling element."""

UNMARKED = """[...document.querySelectorAll('.scroll, .figure, pre')].filter(one =>
  one.scrollWidth > one.clientWidth + 1 && !getComputedStyle(one).backgroundAttachment.includes('scroll')
).map(one => one.className)"""
"""Elements that scroll horizontally without the shadow that shows it."""

FAINT = """(() => {
  const parts = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).map(one => one / 255).map(
      one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (parts(colour).length == 3 || parts(colour)[3] == 1) return light(colour);
    }
    return 1;
  };
  return [...document.querySelectorAll('main *:not(.figure *, .paper *)')].filter(one =>
    one.checkVisibility() && [...one.childNodes].some(node => node.nodeType == 3 && node.data.trim())
  ).map(one => {
    const two = [light(getComputedStyle(one).color), ground(one)].sort((a, b) => a - b);
    return [(two[1] + 0.05) / (two[0] + 0.05), one.tagName + '.' + one.className];
  }).filter(one => one[0] < 4.5);
})()"""
"""Texts with a contrast below 4.5 (WCAG 2.2, 1.4.3), with their colours."""


PRINTED = """(async () => {
  window.dispatchEvent(new Event('beforeprint'));
  for (let turn = 0; turn < 10000; turn += 1) await null;
  window.dispatchEvent(new Event('afterprint'));
  return [...document.querySelectorAll('.paper')].every(one => one.querySelector('svg'));
})()"""
"""Whether every figure is drawn for paper before a browser prints: without a timer, for which printing does not wait."""


class Reader:
    """A window with a page in it."""

    def __init__(self, tools: DevTools) -> None:
        self.tools = tools
        target = tools.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = tools.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **words: Any) -> dict[str, Any]:
        return self.tools.call(method, self.session, timeout=60.0, **words)

    def value(self, expression: str) -> Any:
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < end, f"not within {seconds} s: {expression}"
            time.sleep(0.05)

    def open(self, page: Path, width: int, *, dark: bool = False, media: str = "") -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Page.navigate", url=page.as_uri())
        self.until(f"document.readyState == 'complete' && location.href == {json.dumps(page.as_uri())}")
        assert self.value(PRINTED)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("browser")
    try:
        program = find()
    except ChromiumError as error:
        pytest.skip(str(error))
    words = [
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
        f"--user-data-dir={folder / 'profile'}",
    ]  # fmt: skip
    browser = Chromium(program, words, folder, folder / "log")
    try:
        yield Reader(DevTools(browser))
    finally:
        browser.kill()


@pytest.fixture(scope="module")
def pages(synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return every_page.written(synthetic, tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("width", [1300, 400])
def test_a_page_fits_its_window(reader: Reader, pages: dict[str, Path], name: str, width: int) -> None:
    reader.open(pages[name], width)
    assert reader.value("document.documentElement.scrollWidth") <= width
    assert reader.value(CUT) == []
    assert reader.value(UNMARKED) == []


def test_claims_are_whole_at_1300(reader: Reader, pages: dict[str, Path]) -> None:
    reader.open(pages["study"], 1300)
    assert reader.value(
        "[...document.querySelectorAll('.scroll')].every(one => one.scrollWidth <= one.clientWidth)"
    )
    assert reader.value("document.querySelectorAll('.differs').length") == 4
    assert reader.value("document.querySelector('th:last-child small').textContent") == "s"


def test_panels_can_be_read_in_a_narrow_window(reader: Reader, pages: dict[str, Path]) -> None:
    """Panels are one below the other with full font size: the drawing is not scaled down."""
    reader.open(pages["map"], 400)
    svg = "document.querySelector('.figure svg')"
    reader.until(f"{svg} != null")
    assert reader.value(f"{svg}.getBoundingClientRect().width") <= 400
    assert reader.value(
        f"{svg}.getBoundingClientRect().width / {svg}.viewBox.baseVal.width"
    ) == pytest.approx(1)
    titles = (
        "[...document.querySelectorAll('.figure text')].filter(one => / against the /.test(one.textContent))"
    )
    assert len(set(reader.value(f"{titles}.map(one => one.getBoundingClientRect().y)"))) == 4
    boxes = reader.value(
        "[...document.querySelectorAll('.figure text')].filter(one => /^\\d[.]\\d\\d$/.test(one.textContent))"
        ".map(one => one.getBoundingClientRect()).map(one => [one.y, one.left, one.right])"
    )
    assert len(boxes) > 100
    touching = [a for a, b in itertools.pairwise(sorted(boxes)) if a[0] == b[0] and a[2] > b[1]]
    assert touching == []


@pytest.mark.parametrize("name", SOME)
def test_pages_follow_dark_windows(reader: Reader, pages: dict[str, Path], name: str) -> None:
    """The ground is dark, what is written on it and in figures is light, and light again on paper."""
    letters = "getComputedStyle(document.querySelector('{} .role-axis-label text')).fill"
    reader.open(pages[name], 1300, dark=True)
    assert reader.value("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 29)"
    assert reader.value(FAINT) == []
    if reader.value("document.querySelector('.figure') != null"):
        reader.until("document.querySelector('.figure .role-axis-label text') != null")
        assert reader.value(letters.format(".figure")) == "rgb(154, 165, 184)"
        assert reader.value(letters.format(".paper")) == "rgb(91, 101, 117)"
    reader.open(pages[name], 1300)
    assert reader.value(FAINT) == []


def test_the_cell_under_the_pointer_shows_its_loads(reader: Reader, pages: dict[str, Path]) -> None:
    """With four cells, the heading below the map names size and RTT, and the bars show the load times of all variants."""
    reader.open(pages["map"], 1300)
    cells = "[...document.querySelectorAll('.figure .mark-rect path')]"
    reader.until(f"{cells}.length >= 108")
    texts = "[...document.querySelectorAll('.figure text')].map(one => one.textContent)"
    named = f"{texts}.find(one => one.includes(' at ')) || ''"
    sizes, rtts = [], []
    for cell in json.loads((pages["map"].parent / "map.json").read_text(encoding="utf-8"))["cells"]:
        sizes += [cell["bytes"]] if cell["bytes"] not in sizes else []
        rtts += [cell["rtt_s"]] if cell["rtt_s"] not in rtts else []
    seen = set()
    for place in (3, 40, 60, 100):
        before = reader.value(named)
        x, y = reader.value(
            f"(one => [one.x + one.width / 2, one.y + one.height / 2])({cells}[{place}].getBoundingClientRect())"
        )
        reader.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        reader.until(f"({named}) != {json.dumps(before)}")
        size, rtt = reader.value(named).split(" at ")
        number = sizes.index(Size.parse(size).bytes) * len(rtts) + rtts.index(Duration.parse(rtt).ns / 1e9)
        took = [f"{format_significant(load.end, 3)} s" for load in every_page.loads_of(number)]
        assert [one for one in reader.value(texts) if one in took] == took
        seen.add((size, rtt))
    assert len(seen) > 1


@pytest.mark.parametrize("name", SOME)
def test_on_paper_every_heading_has_its_figure(reader: Reader, pages: dict[str, Path], name: str) -> None:
    """A4 between its margins is 182 mm: 688 CSS pixels. Figures stand with their headings, also those that no window
    showed, and no table is cut."""
    reader.open(pages[name], 688, media="print")
    shown = """[...document.querySelectorAll('.drawing:has(.paper)')].map(one => {
      const svg = one.querySelector('.paper svg').getBoundingClientRect();
      return [getComputedStyle(one).breakInside, getComputedStyle(one.querySelector('.figure')).display,
              svg.height > 50, svg.right <= document.documentElement.clientWidth + 1];
    })"""
    drawings = reader.value(shown)
    assert all(one == ["avoid", "none", True, True] for one in drawings), drawings
    assert len(drawings) == every_page.FIGURES[name]
    assert reader.value(CUT) == []
    assert reader.value(
        "[...document.querySelectorAll('.scroll')].every(one => getComputedStyle(one).overflowX == 'visible')"
    )


STORES: dict[str, Callable[[ModuleType, Path], Path]] = {
    "several flows": lambda synthetic, place: synthetic.rivals_store(place, duration_s=20.0),
    "many panels": lambda synthetic, place: synthetic.matrix_store(place, 1, duration_s=20.0, interval_s=1.0),
    "transfers": lambda synthetic, place: synthetic.sizes_store(place),
    "page loads": lambda synthetic, place: page_store(place, synthetic, seeds=8),
    "one cell": lambda synthetic, place: synthetic.pair_store(place, [(4, 6)]),
}


@pytest.mark.parametrize("store", keep(["many panels"], STORES))
def test_a_brief_report_has_two_printed_pages(
    reader: Reader, synthetic: ModuleType, tmp_path: Path, store: str
) -> None:
    """However many panels a figure has: one sentence and three figures."""
    page = brief_page.write_brief(STORES[store](synthetic, tmp_path / "store"), tmp_path / "brief.html")
    reader.open(page, 688, media="print")
    assert reader.value("document.querySelectorAll('.paper svg').length") == 3
    assert reader.value("document.querySelector('.verdict').textContent").count(". ") == 0
    outside = "[...document.querySelectorAll('.sheet')].filter(one => one.scrollHeight > one.clientHeight + 1).length"
    assert reader.value(outside) == 0
    small = "[...document.querySelectorAll('.paper svg')].map(one => one.getBoundingClientRect().height)"
    assert min(reader.value(small)) > 200, "readable"
    pdf = base64.b64decode(reader.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf)) == 2


LONG = "document.querySelectorAll('.fold')[2]"
"""The third table of the study, after its claims: long, so folded."""

COLUMN = f"""[...{LONG}.querySelectorAll('tbody tr')].slice(0, 5).map(
  row => row.cells[{{}}].textContent.replace('\\u00a0', ' '))"""


def test_long_tables_fold_on_the_screen_and_not_on_paper(reader: Reader, pages: dict[str, Path]) -> None:
    seen = f"{LONG}.querySelector('td').checkVisibility({{contentVisibilityAuto: true}})"
    reader.open(pages["study"], 1300)
    assert reader.value(f"{LONG}.open") is False
    assert reader.value(seen) is False
    assert reader.value("document.querySelector('.fold').open") is True
    reader.open(pages["study"], 688, media="print")
    assert reader.value(f"{LONG}.querySelector('td').getBoundingClientRect().height") > 5
    assert reader.value("getComputedStyle(document.querySelector('.fold > summary')).display") == "none"


def test_tables_sort_by_their_headings(reader: Reader, pages: dict[str, Path]) -> None:
    """The mouse and keys sort: numbers by size for any prefix of the unit, texts after them, missing values last. The
    third click restores the original order."""
    reader.open(pages["study"], 1300)
    reader.value(f"{LONG}.open = true")
    head = f"{LONG}.querySelectorAll('th')[1]"
    assert reader.value(COLUMN.format(1)) == ["900 ms", "1.5 s", "–", "20 ms", "never"]
    reader.value(f"{head}.querySelector('button').click()")
    assert reader.value(f"{head}.getAttribute('aria-sort')") == "ascending"
    assert reader.value(COLUMN.format(1)) == ["20 ms", "900 ms", "1.5 s", "20 s", "21 s"]
    again = f"getComputedStyle({LONG}.querySelectorAll('tbody tr')[2].cells[0], '::before').content"
    assert reader.value(again) == '"=a"', "a row says what it continued"
    reader.value(f"{head}.querySelector('button').focus()")
    for kind in ("keyDown", "keyUp"):
        reader.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key="Enter",
            code="Enter",
            text="\r",
            windowsVirtualKeyCode=13,
        )
    assert reader.value(f"{head}.getAttribute('aria-sort')") == "descending"
    assert reader.value(COLUMN.format(1))[0] == "34 s"
    assert reader.value(f"{LONG}.querySelector('tbody').lastElementChild.cells[1].textContent") == "–"
    reader.value(f"{head}.querySelector('button').click()")
    assert reader.value(f"{head}.hasAttribute('aria-sort')") is False
    assert reader.value(COLUMN.format(1)) == ["900 ms", "1.5 s", "–", "20 ms", "never"]
    other = f"{LONG}.querySelectorAll('th')[0]"
    reader.value(f"{other}.querySelector('button').click()")
    assert reader.value(COLUMN.format(0)) == ["=a", "", "b, c", "b9", "b10"]


def test_tables_can_be_taken_along(reader: Reader, pages: dict[str, Path]) -> None:
    """The link holds CSV (RFC 4180) that the page made: rows are whole, and no cell is taken for a formula."""
    reader.open(pages["study"], 1300)
    link = f"{LONG}.querySelector('summary a')"
    reader.value(
        "window.kept = ''; const own = URL.createObjectURL; URL.createObjectURL = (blob) => "
        "{ blob.text().then((text) => { window.kept = text; }); return own(blob); };"
        f"{link}.addEventListener('click', (event) => event.preventDefault()); {link}.click()"
    )
    reader.until("window.kept != ''")
    rows = list(csv.reader(io.StringIO(reader.value("window.kept"), newline="")))
    assert rows[:4] == [["who", "time"], ["'=a", "900 ms"], ["'=a", "1.5 s"], ["b, c", "–"]]
    assert len(rows) == 21
    assert reader.value("window.kept").count("\r\n") == 21
    assert reader.value(f"{link}.download") == "claims-of-a-study-long.csv"
    reader.open(pages["report"], 1300)
    reader.value(
        "(async () => { let found; const own = URL.createObjectURL; URL.createObjectURL = (blob) => "
        "{ found = blob; return own(blob); }; const link = document.querySelector('.fold summary a');"
        "link.addEventListener('click', (event) => event.preventDefault()); link.click();"
        "window.kept = (await found.text()).split('\\r\\n'); })()"
    )
    reader.until("window.kept != undefined")
    head, row = (next(csv.reader([line])) for line in reader.value("window.kept")[:2])
    at = head.index("goodput, Mbit/s")
    assert head[at + 1] == "goodput, interval, Mbit/s"
    assert float(row[at]) > 1
    assert float(row[at + 1]) > 0


def test_pages_begin_with_their_verdict_without_a_script(reader: Reader, pages: dict[str, Path]) -> None:
    reader.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        for name, page in pages.items():
            reader.call("Page.navigate", url=page.as_uri())
            reader.until(f"document.readyState == 'complete' && location.href == {json.dumps(page.as_uri())}")
            order = "[...document.querySelectorAll('main *:not(.sheet)')].slice(0, 3).map(one => one.className || one.tagName)"
            assert reader.value(order) == ["H1", "verdict", "lead"], name
            assert reader.value("document.querySelectorAll('th button').length") == 0
            reader.value(
                "document.querySelectorAll('.fold').forEach(one => one.querySelector('summary').click())"
            )
    finally:
        reader.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("name", every_page.FIGURES)
def test_pages_stay_small(pages: dict[str, Path], name: str) -> None:
    assert pages[name].stat().st_size < 5_000_000
