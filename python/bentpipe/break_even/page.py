"""Output files of a map: ``map.html``, ``map.svg``, ``map.pdf``, ``map.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.break_even.ratios import Cell, LoadTimes, Map
from bentpipe.break_even.recommendation import headline_text, kinds_text, supporting_text
from bentpipe.break_even.summary import data, load_time_rows, ratio_rows, size_rows, titles
from bentpipe.figures.figure import Figure
from bentpipe.figures.load_waterfall import PickedLoad, pick, with_loads
from bentpipe.figures.ratio_map import RatioCell, ratio_map
from bentpipe.report.headline import Headline
from bentpipe.report.html_table import tabular
from bentpipe.report.page import BRIEF, Page
from bentpipe.scenario.quantities import Duration, Size
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    import altair as alt

    from bentpipe.break_even.config import BreakEvenConfig

__all__ = ["KEYS", "figure", "interactive_figure", "write", "write_page"]

KEYS = ("map",)
"""Keys of the figures."""

_SLOTS = (
    " Rates and losses vary with the reconfiguration intervals of the access; the delays are constant "
    "and set by the RTT axis."
)


def figure(result: Map) -> Figure:
    """Return the figure of a map with one panel for each variant without a proxy and each kind of proxy.

    Raises:
        ValueError: no pair of loads has finished.
    """
    return _figure(result, None)


def interactive_figure(result: Map) -> Figure:
    """Return the interactive figure, which shows the loads of all variants at the cell under the pointer.

    Raises:
        ValueError: no pair of loads has finished.
    """
    loads = [
        PickedLoad(
            *_coordinates(size, rtt), name, load.sent, load.first_byte, load.end, _seed_note(times, seed)
        )
        for name in (variant.name for variant in result.config.variants)
        for rtt in result.config.rtts
        for size in result.config.sizes
        if (times := result.times.get((name, size, rtt))) is not None and times.typical is not None
        for seed, load in [times.typical]
    ]
    if not loads:
        return figure(result)
    # The initial cell is that with the greatest gain of a proxy at the RTT of the access.
    own = [cell for cell in result.cells if cell.rtt == result.config.own_rtt and not cell.bound]
    best = max(own or result.cells, key=lambda cell: cell.estimate or 0)
    place = _coordinates(best.size, best.rtt)
    first = next((load for load in loads if (load.x, load.y) == place), loads[0])
    return with_loads(_figure(result, pick(first)), loads)


def _times_note(result: Map) -> str:
    """Return the meaning of ``>`` in the table of load times; empty without unfinished loads."""
    own = [times for (_, _, rtt), times in result.times.items() if rtt == result.config.own_rtt]
    if not any(times.unfinished for times in own):
        return ""
    return "A time with > is a lower bound: loads that did not finish count with the duration of their run."


def _seed_note(times: LoadTimes, seed: int) -> str:
    """Return the seed of a load if there are several: that nearest to the median."""
    return f"seed {seed}" if len(times.by_seed) > 1 else ""


def _coordinates(size: str, rtt: str) -> tuple[float, float]:
    return float(Size.parse(size).bytes), Duration.parse(rtt).ns / 1e9


def _ratio_cell(cell: Cell) -> RatioCell:
    name = f"{cell.alternative} against the {cell.proxy} PEP"
    return RatioCell(*_coordinates(cell.size, cell.rtt), cell.estimate, name, cell.bound, cell.is_uncertain)


def _figure(result: Map, picked: alt.Parameter | None, rtt: str | None = None) -> Figure:
    """Return the figure of all rows, or of the row ``rtt``."""
    config = result.config
    own = _coordinates("1 B", config.own_rtt)[1] if config.access.rtt is not None else None
    return ratio_map(
        [_ratio_cell(cell) for cell in result.cells if rtt in (None, cell.rtt)], KEYS[0],
        "Page load time without a PEP, relative to that over split TCP",
        f"{config.access.title}. The page is one object. The RTT is that of the whole path, of "
        f"which 30 ms (at most half) lie beyond the gateway. TCP: {config.tcp}. QUIC: {_quic_text(config)}. "
        f"PEPs stand at the terminal and the gateway.{_SLOTS if config.access.slotted else ''}",
        above="the PEP is faster", below="it is slower", pick=picked, own=own,
    )  # fmt: skip


def _quic_text(config: BreakEvenConfig) -> str:
    windows = " or ".join(window.removesuffix(" packets") for window in config.windows)
    return f"{' or '.join(config.controllers)}, initial window of {windows} packets"


def write(result: Map, out: Path) -> Path:
    """Write all files of a map into ``out`` and return the path of the page.

    Raises:
        ValueError: no pair of loads has finished.
    """
    figure(result).write_all([out / "map.svg", out / "map.pdf"])
    return write_page(result, out)


def _title(result: Map) -> str:
    return f"Should you keep your PEP? {result.config.access.title}"


def _write_brief(result: Map, out: Path, state: str) -> None:
    """Write the brief page: the recommendation, the ratios and the load times at the own RTT."""
    page, rtt = Page(_title(result)), result.config.own_rtt
    if not any(cell.ratio is not None for cell in result.cells if cell.rtt == rtt):
        return
    page.write(
        out / BRIEF, "break_even/brief.html", Headline(headline_text(result)), kinds=kinds_text(result),
        figure=page.drawing(_figure(result, None, rtt)), own_title=titles(result)[0],
        own=tabular(load_time_rows(result)), times_note=_times_note(result), assumptions=supporting_text(result),
        state=state, engine=result.engine, seeds=result.seeds,
    )  # fmt: skip


def write_page(result: Map, out: Path, state: str = "") -> Path:
    """Write the page and the data of a map, each atomically, and return the path of the page.

    Args:
        result: the map, which may be partial.
        out: directory of the map.
        state: text about missing runs; empty: the map is complete.

    Raises:
        ValueError: no pair of loads has finished.
    """
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "map.json", (json.dumps(data(result), indent=1) + "\n").encode())
    _write_brief(result, out, state)
    page = Page(_title(result))
    own_title, sizes_title = titles(result)
    return page.write(
        out / "map.html", "break_even/page.html", Headline(headline_text(result)),
        kinds=kinds_text(result), figure=page.drawing(interactive_figure(result), paper=figure(result)),
        own_title=own_title, own=tabular(load_time_rows(result)), times_note=_times_note(result),
        sizes_title=sizes_title, break_even=tabular(size_rows(result)), ratios=tabular(ratio_rows(result)),
        assumptions=supporting_text(result), state=state, engine=result.engine, seeds=result.seeds,
    )  # fmt: skip
