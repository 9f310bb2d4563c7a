"""Output files of a comparison: page, figure, data and scenario."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bentpipe.link_layer.config import TRAFFIC, LinkLayerConfig, scenario
from bentpipe.link_layer.figures import KEY, draw_comparison
from bentpipe.link_layer.headline import headline_text, supporting_text
from bentpipe.link_layer.results import table_rows
from bentpipe.report.headline import Headline
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.scenario.toml_writer import dumps, inline
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.link_layer.results import Comparison

__all__ = ["comparison_data", "scenario_text", "table_title", "write"]


def scenario_text(config: LinkLayerConfig) -> str:
    """Return the scenario as TOML with comments."""
    comments = ["# Link-layer settings by traffic, written by `bentpipe link-layer`.",
                "# bentpipe check FILE, bentpipe run FILE and bentpipe show DIR read it too."]  # fmt: skip
    if str(config.access.folder) not in ("", "."):
        comments.append(f"# Files that it names are relative to {config.access.folder}.")
    table = scenario(config)
    axes = table.pop("sweep")
    sweep = ["[sweep]"]
    for name, values in axes.items():
        sweep += [f"{name} = [", *(f"  {inline(value)}," for value in values), "]"]
    return "\n".join([*comments, dumps(table), *sweep]) + "\n"


def table_title(traffic: str) -> str:
    """Return the title of the table of a traffic."""
    return "Call" if traffic == "call" else f"{traffic} download"


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as plain data."""
    config = comparison.config
    return {
        "engine": comparison.engine,
        "access": config.access.name,
        "baseline": config.labels[0],
        "answer": headline_text(comparison),
        "settings": {setting.label: dict(setting.keys) for setting in config.settings},
        "means": comparison.as_rows(),
        "changes": comparison.change_rows(),
    }


def write(comparison: Comparison, out: Path) -> Path:
    """Write all files of a comparison into ``out`` and return the path of the page."""
    config = comparison.config
    figure = draw_comparison(comparison)
    figure.write_all([out / f"{KEY}.svg", out / f"{KEY}.pdf"])
    text = scenario_text(config)
    write_atomic(out / "scenario.toml", text.encode())
    data = json.dumps(comparison_data(comparison), indent=1, ensure_ascii=False)
    write_atomic(out / f"{KEY}.json", f"{data}\n".encode())
    page = Page(f"Link-layer settings: {config.access.title}")
    return page.write(
        out / f"{KEY}.html", "link_layer/page.html", Headline(headline_text(comparison), supporting_text(comparison)),
        figure=page.drawing(figure),
        tables=[(table_title(traffic), tabular(table_rows(comparison, traffic))) for traffic in TRAFFIC],
        scenario=text, engine=comparison.engine, seeds=config.seeds,
    )  # fmt: skip
