"""Spreadsheets: the store's tables as ODS, with charts that LibreOffice draws from the sheets themselves.

Without a template, the file holds these sheets (:func:`sheets`): ``runs`` (one row per run and flow), ``cells``
(aggregated over seeds) and, side by side for the runs that figures over time show, ``cwnd`` (kB), ``goodput``
(Mbit/s, windows of 1 s, or of ``sample`` where that is longer) and ``goodput since start`` (Mbit/s), each with a
chart. Sheets over time have at most ``MOST_CELLS`` cells: longer ones keep every n-th sample.

With a template see :mod:`bentpipe.report.ods_template`.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from bentpipe.figures.registry import FigureContext
from bentpipe.figures.style import palette
from bentpipe.metrics.format import UNLIMITED_BYTES
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.windows import goodput_since_start, goodput_windows, window_of
from bentpipe.report.ods_template import cell_text, fill
from bentpipe.store.codec import TABLES
from bentpipe.store.files import StoreError, write_atomic
from bentpipe.store.reader import Store, open_store

MOST_CELLS = 40_000
"""Cells of a sheet over time; more makes a spreadsheet slow to open."""

MOST_SERIES = 16
"""Columns of a sheet over time."""

CHARTS = {
    "cwnd": METRICS["cwnd_bytes"].axis,
    "goodput": METRICS["goodput_bit_s"].axis,
    "goodput since start": METRICS["goodput_bit_s"].axis,
}
"""Sheets that get a chart, and what its vertical axis says."""


def write_ods(store_path: Store | Path | str, out: Path, template: Path | None = None) -> Path:
    """Write a store as ODS to ``out``; with ``template``, a copy of it whose sheets are filled.

    Raises StoreError for a directory that is no store, TemplateError for a template in which no sheet has the name
    of a table.
    """
    store = open_store(store_path)
    if template is not None:
        return fill(template, out, Tables(store))
    document = _document(sheets(store))
    out.parent.mkdir(parents=True, exist_ok=True)
    whole = BytesIO()
    document.write(whole)
    write_atomic(out, whole.getvalue())
    return out


class Tables:
    """The tables a template may ask for, by the name of a sheet."""

    def __init__(self, store: Store) -> None:
        """Of ``store``; nothing is read before it is asked for."""
        self.store = store
        self._material = FigureContext(store)

    def names(self) -> list[str]:
        """Every name, without the runs' own."""
        return ["runs", "cells", *CHARTS, *TABLES, "RUN.TABLE"]

    def get(self, name: str) -> pl.DataFrame | None:
        """The table ``name``: one of :func:`sheets`, a raw table of all runs, or ``RUN.TABLE``; else ``None``."""
        run, dot, table = name.rpartition(".")
        if dot and table in TABLES and run in self.store.index["run"].to_list():
            return self.store.rows(table, runs=[run])
        if name in TABLES:
            return self.store.shown(
                self.store.index.join(
                    self.store.rows(name), on="run", how="inner", maintain_order="left_right"
                )
            )
        return _sheet(self._material, name)


def sheets(store: Store) -> dict[str, pl.DataFrame]:
    """The sheets of an ODS file without a template, by name."""
    material = FigureContext(store)
    found = {name: _sheet(material, name) for name in ("runs", "cells", *CHARTS)}
    return {name: frame for name, frame in found.items() if frame is not None and frame.height}


def _sheet(material: FigureContext, name: str) -> pl.DataFrame | None:
    if name == "runs":
        return material.store.shown(material.metrics)
    if name == "cells":
        return material.store.shown(material.cells)
    if name not in CHARTS:
        return None
    runs = material.time_runs
    columns = ["time_s", "flow", "side", "received_in_order_bytes", "cwnd_bytes"]
    flows = material.store.rows("flows", columns, runs["run"])
    if name == "goodput":
        frame = goodput_windows(flows, material.ways, window_of(flows))
        frame = frame.with_columns(value=pl.col("goodput_bit_s") / 1e6)
    elif name == "goodput since start":
        starts = material.metrics.select("run", "flow", "direction", "data_start_s")
        frame = goodput_since_start(flows, material.ways, starts)
        frame = frame.with_columns(value=pl.col("goodput_bit_s") / 1e6)
    else:
        sending = material.ways.select("flow", "direction", pl.col("sender").alias("side"))
        frame = flows.join(sending, on=["flow", "side"], how="inner", maintain_order="left")
        limited = pl.col("cwnd_bytes") < UNLIMITED_BYTES
        frame = frame.with_columns(value=pl.when(limited).then(pl.col("cwnd_bytes") / 1000))
    frame = material.label(frame.join(runs, on="run", how="inner", maintain_order="left"))
    title = pl.concat_str(pl.col("row", "column", "series"), separator=", ").str.strip_chars(", ")
    wide = frame.with_columns(title.str.replace_all(", , ", ", ").alias("title"))
    titles = wide["title"].unique(maintain_order=True).to_list()[:MOST_SERIES]
    wide = wide.filter(pl.col("title").is_in(titles)).pivot(
        on="title", on_columns=titles, index="time_s", values="value", aggregate_function="first"
    ).sort("time_s")  # fmt: skip
    step = -(-wide.height * wide.width // MOST_CELLS)
    return wide.gather_every(step) if step > 1 else wide


def _document(frames: dict[str, pl.DataFrame]) -> Any:
    try:
        from odf.opendocument import OpenDocumentSpreadsheet
    except ImportError:
        raise ImportError("ODS needs odfpy, which is not installed: pip install 'bentpipe[ods]'") from None
    from odf.table import Shapes, Table, TableCell, TableRow
    from odf.text import P

    if not frames:
        raise StoreError("the store has nothing to write")
    document = OpenDocumentSpreadsheet()
    bold = _bold(document)
    for name, frame in frames.items():
        sheet = Table(name=name)
        if name in CHARTS and frame.width > 1:
            shapes = Shapes()
            shapes.addElement(_chart(document, name, frame))
            sheet.addElement(shapes)
        else:
            for width in _widths(document, name, frame):
                sheet.addElement(width)
        for number, line in enumerate([frame.columns, *frame.rows()]):
            row = TableRow()
            for value in line:
                kind, text = cell_text(value)
                if not kind:
                    row.addElement(TableCell())
                    continue
                attribute = {"float": {"value": text}, "boolean": {"booleanvalue": text}}.get(kind, {})
                if number == 0:
                    attribute = {"stylename": bold}
                cell = TableCell(valuetype=kind, **attribute)
                cell.addElement(P(text=text))
                row.addElement(cell)
            sheet.addElement(row)
        document.spreadsheet.addElement(sheet)
    return document


def _bold(document: Any) -> Any:
    """The style of the first row: bold, on several lines where a column is narrow."""
    from odf.style import Style, TableCellProperties, TextProperties

    made = Style(name="heading", family="table-cell")
    made.addElement(TableCellProperties(wrapoption="wrap"))
    made.addElement(TextProperties(fontweight="bold"))
    document.automaticstyles.addElement(made)
    return made


def _widths(document: Any, name: str, frame: pl.DataFrame) -> list[Any]:
    """Columns as wide as what they hold; sheets with a chart keep LibreOffice's own, beside which it stands."""
    from odf.style import Style, TableColumnProperties
    from odf.table import TableColumn

    columns = []
    for index, column in enumerate(frame.get_columns()):
        texts = [cell_text(value)[1] for value in column.head(100)]
        longest = min(max(len(column.name) + 1, *map(len, texts), 6), 40)
        made = Style(name=f"{name} {index}", family="table-column")
        made.addElement(TableColumnProperties(columnwidth=f"{0.2 * longest + 0.2:.1f}cm"))
        document.automaticstyles.addElement(made)
        columns.append(TableColumn(stylename=made))
    return columns


def column_name(index: int) -> str:
    """The letters of a column, from 0: ``A`` ... ``Z``, ``AA``..."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _chart(document: Any, name: str, frame: pl.DataFrame) -> Any:
    """A frame with a line chart of all columns over the first, right of the data."""
    from odf import chart, style
    from odf.draw import Frame, Object
    from odf.opendocument import OpenDocumentChart
    from odf.text import P

    last = frame.height + 1
    place = f"'{name}'."
    whole = f"{place}$A$1:{place}$${column_name(frame.width - 1)}${last}".replace("$$", "$")
    part = OpenDocumentChart()

    def lines(key: str, stroke: str | None) -> Any:
        made = style.Style(name=key, family="chart")
        made.addElement(style.ChartProperties(symboltype="none", lines="true"))
        if stroke is not None:
            made.addElement(style.GraphicProperties(stroke="solid", strokewidth="0.05cm", strokecolor=stroke))
        part.automaticstyles.addElement(made)
        return made

    axis_style = style.Style(name="axis", family="chart")
    axis_style.addElement(style.ChartProperties(displaylabel="true"))
    part.automaticstyles.addElement(axis_style)
    box = chart.Chart(attributes={"class": "chart:scatter"}, width="26cm", height="13cm")
    box.addElement(_titled(chart.Title(), name, P))
    box.addElement(chart.Legend(legendposition="bottom"))
    blank = style.Style(name="wall", family="chart")
    blank.addElement(style.GraphicProperties(fill="none", stroke="none"))
    faint = style.Style(name="grid", family="chart")
    faint.addElement(style.GraphicProperties(stroke="solid", strokecolor="#d9dee7"))
    part.automaticstyles.addElement(blank)
    part.automaticstyles.addElement(faint)
    plot = chart.PlotArea(stylename=lines("plot", None), cellrangeaddress=whole, datasourcehaslabels="row")
    for dimension, title in (("x", "time, s"), ("y", CHARTS[name])):
        axis = chart.Axis(dimension=dimension, name=f"primary-{dimension}", stylename=axis_style)
        axis.addElement(_titled(chart.Title(), title, P))
        if dimension == "y":
            axis.addElement(chart.Grid(attributes={"class": "major"}, stylename=faint))
        plot.addElement(axis)
    strokes = palette([column.rpartition(", ")[2] for column in frame.columns[1:]])[1]
    for index, stroke in enumerate(strokes, start=1):
        letter = column_name(index)
        series = chart.Series(
            valuescellrangeaddress=f"{place}${letter}$2:{place}${letter}${last}",
            labelcelladdress=f"{place}${letter}$1",
            attributes={"class": "chart:scatter"},
            stylename=lines(f"series{index}", stroke),
        )
        series.addElement(chart.Domain(cellrangeaddress=f"{place}$A$2:{place}$A${last}"))
        plot.addElement(series)
    plot.addElement(chart.Wall(stylename=blank))
    box.addElement(plot)
    part.chart.addElement(box)
    holder = Frame(width="26cm", height="13cm", x=f"{2.26 * (frame.width + 1):.1f}cm", y="0.6cm", zindex="0")
    holder.addElement(Object(href=document.addObject(part), notifyonupdateofranges=whole))
    return holder


def _titled(element: Any, text: str, paragraph: Any) -> Any:
    element.addElement(paragraph(text=text))
    return element
