"""How results show themselves in a notebook: a small table and the key figure.

The figure is drawn as SVG by vl-convert, so it needs neither JavaScript nor a network and survives in a saved
notebook and on pages that only render it.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bentpipe.figures.registry import FIGURES, Material
from bentpipe.report import page_loads
from bentpipe.report.report import summary
from bentpipe.stats.intervals import significant
from bentpipe.stats.titles import METRICS
from bentpipe.store.reader import Store, read_store

MOST_ROWS = 12
"""Rows of the table; the rest is counted."""

KEY_FIGURES = ("page-load-time", "completion", "goodput-against", "friendliness", "goodput")
"""The first of these that the store has something for is shown."""


def html(store: Store | Path | str) -> str:
    """A fragment of HTML about a store: title, sentence, page loads, goodput, key figure. Raises StoreError."""
    reading = read_store(store)
    material = Material(reading)
    parts = [
        f"<strong>{escape(reading.title)}</strong>",
        f"<p>{escape(summary(material))}</p>",
        *(page_loads.tables(material) if material.pages.height else ()),
        _table(material),
    ]
    for key in KEY_FIGURES:
        figure = FIGURES[key](material)
        if figure is not None:
            with TemporaryDirectory() as folder:
                svg = figure.write(Path(folder) / "figure.svg").read_text(encoding="utf-8")
            parts.append(f'<div style="background:#fff;max-width:100%;overflow-x:auto">{svg}</div>')
            break
    return "\n".join(parts)


def _table(material: Material) -> str:
    keys = list(material.store.columns)
    wanted = [METRICS[name] for name in ("goodput_bit_s", "jain", "retransmission_ratio")]
    heads = [material.title(dim) for dim in material.dims] + ["flow", *(metric.axis for metric in wanted)]
    groups = material.cells.partition_by([*keys, "flow", "direction"], maintain_order=True)
    lines = []
    for group in groups[:MOST_ROWS]:
        first = group.row(0, named=True)
        means: dict[str, Any] = dict(zip(group["metric"].to_list(), group["mean"].to_list(), strict=True))
        texts = [dim.word(first[dim.key]) for dim in material.dims]
        texts.append(material.flow_names[f"{first['flow']} {first['direction']}"])
        texts += [significant(means[m.name] * m.factor) if m.name in means else "–" for m in wanted]
        lines.append("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in texts) + "</tr>")
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    more = len(groups) - len(lines)
    rest = f"<p>… and {more} rows more</p>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{rest}"
