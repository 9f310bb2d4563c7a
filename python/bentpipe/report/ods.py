"""Export of a store's tables to ODS, with charts that LibreOffice draws from the sheets.

Without a template, the file has the sheets of :func:`sheets`. ``metrics`` has one row per run and flow, ``cells`` is
aggregated over seeds. Sheets over time have a chart each: ``cwnd`` (kB), ``goodput`` (Mbit/s) and
``goodput since start`` (Mbit/s), with one column for each run of figures over time. ``goodput`` has windows of 1 s, or
of ``sample_interval`` if that is longer. Sheets over time have at most ``MAX_CELLS`` cells: longer ones keep every n-th
sample.

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
from bentpipe.metrics.store_metrics import cell_metrics, store_metrics
from bentpipe.metrics.windows import goodput_since_start, goodput_windows, window_of
from bentpipe.report.ods_template import cell_text, fill
from bentpipe.store.codec import TABLES
from bentpipe.store.files import StoreError, write_atomic
from bentpipe.store.reader import Store, open_store

MAX_CELLS = 40_000
"""Largest number of cells of a sheet over time; larger spreadsheets open slowly."""

MAX_SERIES = 16
"""Largest number of series of a sheet over time."""

CHARTS = {
    "cwnd": METRICS["cwnd_bytes"].axis,
    "goodput": METRICS["goodput_bit_s"].axis,
    "goodput since start": METRICS["goodput_bit_s"].axis,
}
"""Sheets with a chart, and the title of its vertical axis."""


def write_ods(store_path: Store | Path | str, out: Path, template: Path | None = None) -> Path:
    """Write a store as ODS to ``out``; with ``template``, fill the sheets of a copy of it.

    Raises:
        StoreError: ``store_path`` is not a store.
        TemplateError: no sheet of the template has the name of a table.
    """
    store = open_store(store_path)
    if template is not None:
        return fill(template, out, Tables(store))
    document = _document(sheets(store))
    out.parent.mkdir(parents=True, exist_ok=True)
    buffer = BytesIO()
    document.write(buffer)
    write_atomic(out, buffer.getvalue())
    return out


class Tables:
    """Tables of a store by name of a sheet, read on demand."""

    def __init__(self, store: Store) -> None:
        """Create the tables of ``store`` without reading it."""
        self.store = store
        self._context = FigureContext(store)

    def names(self) -> list[str]:
        """Return all names; ``RUN.TABLE`` stands for the tables of single runs."""
        return ["metrics", "cells", *CHARTS, *TABLES, "RUN.TABLE"]

    def get(self, name: str) -> pl.DataFrame | None:
        """Return a table: one of :func:`sheets`, a raw table of all runs, or ``RUN.TABLE``; None for other names."""
        run, dot, table = name.rpartition(".")
        if dot and table in TABLES and run in self.store.index["run"].to_list():
            return self.store.rows(table, runs=[run])
        if name in TABLES:
            return self.store.shown(
                self.store.index.join(
                    self.store.rows(name), on="run", how="inner", maintain_order="left_right"
                )
            )
        return _sheet(self._context, name)


def sheets(store: Store) -> dict[str, pl.DataFrame]:
    """Return the sheets of an ODS file without template, by name."""
    context = FigureContext(store)
    frames = {name: _sheet(context, name) for name in ("metrics", "cells", *CHARTS)}
    return {name: frame for name, frame in frames.items() if frame is not None and frame.height}


def _sheet(context: FigureContext, name: str) -> pl.DataFrame | None:
    if name == "metrics":
        return context.store.shown(store_metrics(context.store, context.metrics))
    if name == "cells":
        metrics = store_metrics(context.store, context.metrics)
        return context.store.shown(cell_metrics(metrics, context.store.columns))
    if name not in CHARTS:
        return None
    runs = context.time_runs
    columns = ["time_s", "flow", "side", "received_in_order_bytes", "cwnd_bytes"]
    flows = context.store.rows("flows", columns, runs["run"])
    if name == "goodput":
        frame = goodput_windows(flows, context.directions, window_of(flows))
        frame = frame.with_columns(value=pl.col("goodput_bit_s") / 1e6)
    elif name == "goodput since start":
        starts = context.metrics.select("run", "flow", "direction", "data_start_s")
        frame = goodput_since_start(flows, context.directions, starts)
        frame = frame.with_columns(value=pl.col("goodput_bit_s") / 1e6)
    else:
        sending = context.directions.select("flow", "direction", pl.col("sender").alias("side"))
        frame = flows.join(sending, on=["flow", "side"], how="inner", maintain_order="left")
        limited = pl.col("cwnd_bytes") < UNLIMITED_BYTES
        frame = frame.with_columns(value=pl.when(limited).then(pl.col("cwnd_bytes") / 1000))
    frame = context.label(frame.join(runs, on="run", how="inner", maintain_order="left"))
    title = pl.concat_str(pl.col("row", "column", "series"), separator=", ").str.strip_chars(", ")
    wide = frame.with_columns(title.str.replace_all(", , ", ", ").alias("title"))
    titles = wide["title"].unique(maintain_order=True).to_list()[:MAX_SERIES]
    wide = wide.filter(pl.col("title").is_in(titles)).pivot(
        on="title", on_columns=titles, index="time_s", values="value", aggregate_function="first"
    ).sort("time_s")  # fmt: skip
    step = -(-wide.height * wide.width // MAX_CELLS)
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
    """Add the style of the first row, bold with line breaks, and return it."""
    from odf.style import Style, TableCellProperties, TextProperties

    new_style = Style(name="heading", family="table-cell")
    new_style.addElement(TableCellProperties(wrapoption="wrap"))
    new_style.addElement(TextProperties(fontweight="bold"))
    document.automaticstyles.addElement(new_style)
    return new_style


def _widths(document: Any, name: str, frame: pl.DataFrame) -> list[Any]:
    """Return columns as wide as their longest text, from 6 to 40 characters."""
    from odf.style import Style, TableColumnProperties
    from odf.table import TableColumn

    columns = []
    for index, column in enumerate(frame.get_columns()):
        texts = [cell_text(value)[1] for value in column.head(100)]
        longest = min(max(len(column.name) + 1, *map(len, texts), 6), 40)
        new_style = Style(name=f"{name} {index}", family="table-column")
        new_style.addElement(TableColumnProperties(columnwidth=f"{0.2 * longest + 0.2:.1f}cm"))
        document.automaticstyles.addElement(new_style)
        columns.append(TableColumn(stylename=new_style))
    return columns


def column_name(index: int) -> str:
    """Return the letters of a column, counted from 0: ``A`` ... ``Z``, ``AA``..."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _chart(document: Any, name: str, frame: pl.DataFrame) -> Any:
    """Return a frame with a line chart of all columns over the first, right of the data."""
    from odf import chart, style
    from odf.draw import Frame, Object
    from odf.opendocument import OpenDocumentChart
    from odf.text import P

    last = frame.height + 1
    place = f"'{name}'."
    whole = f"{place}$A$1:{place}$${column_name(frame.width - 1)}${last}".replace("$$", "$")
    part = OpenDocumentChart()

    def lines(key: str, stroke: str | None) -> Any:
        new_style = style.Style(name=key, family="chart")
        new_style.addElement(style.ChartProperties(symboltype="none", lines="true"))
        if stroke is not None:
            new_style.addElement(
                style.GraphicProperties(stroke="solid", strokewidth="0.05cm", strokecolor=stroke)
            )
        part.automaticstyles.addElement(new_style)
        return new_style

    axis_style = style.Style(name="axis", family="chart")
    axis_style.addElement(style.ChartProperties(displaylabel="true"))
    part.automaticstyles.addElement(axis_style)
    box = chart.Chart(attributes={"class": "chart:scatter"}, width="26cm", height="13cm")
    box.addElement(_add_text(chart.Title(), name, P))
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
        axis.addElement(_add_text(chart.Title(), title, P))
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


def _add_text(element: Any, text: str, paragraph: Any) -> Any:
    element.addElement(paragraph(text=text))
    return element
