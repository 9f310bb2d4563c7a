"""Output files of a comparison: page, figure, data and scenario."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bentpipe.link_layer.config import CALL, TRAFFIC, LinkLayerConfig, scenario
from bentpipe.link_layer.figures import KEY, draw_comparison
from bentpipe.link_layer.headline import describe_playout, headline_text, supporting_text
from bentpipe.link_layer.recommendation import buffer_effect, joint_choice
from bentpipe.link_layer.results import interval_data, table_rows
from bentpipe.metrics.change_table import rows
from bentpipe.metrics.format import TOO_FEW_SEEDS
from bentpipe.report.headline import Headline
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.scenario.toml_writer import dumps, inline
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.link_layer.results import Comparison

__all__ = ["comparison_data", "scenario_text", "table_notes", "table_title", "write"]


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


def table_title(comparison: Comparison, traffic: str) -> str:
    """Return the title of the table of a traffic."""
    if traffic == CALL:
        return f"Call (play-out {comparison.config.playout})"
    return f"{traffic} download"


def table_notes(comparison: Comparison, traffic: str) -> list[str]:
    """Return the notes of the table of a traffic, one sentence each."""
    notes = []
    if traffic == CALL:
        playout = describe_playout(comparison.config.playout)
        notes.append(f"MOS, late loss and mouth-to-ear delay depend on the play-out, {playout} (--playout).")
    else:
        notes.append(
            "Residual loss is per offered packet; a sender that backs off in fades offers fewer packets there."
        )
    texts = [text for row in table_rows(comparison, traffic) for text in row.values()]
    if any(TOO_FEW_SEEDS in text for text in texts if isinstance(text, str)):
        notes.append(f"{TOO_FEW_SEEDS}: too few seeds, the interval exceeds the mean.")
    return notes


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as plain data."""
    config = comparison.config
    effect, choice = buffer_effect(comparison), joint_choice(comparison)
    return {
        "engine": comparison.engine,
        "access": config.access.name,
        "title": config.title,
        "path": comparison.path,
        "overrides": config.all_overrides,
        "playout": str(config.playout),
        "baseline": config.labels[0],
        "answer": headline_text(comparison),
        "settings": {setting.label: dict(setting.keys) for setting in config.settings},
        "means": comparison.as_rows(),
        "changes": comparison.change_rows(),
        "reordering_buffer": None
        if effect is None
        else {
            "with": effect.ordered,
            "without": effect.unordered,
            "changes": rows(list(effect.changes.values())),
        },
        "one_setting": None
        if choice is None
        else {
            "setting": choice.setting,
            "shares": {traffic: interval_data(share) for traffic, share in choice.shares.items()},
            "not_separated_from": list(choice.rivals),
        },
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
    page = Page(f"Link-layer settings: {config.title}")
    return page.write(
        out / f"{KEY}.html", "link_layer/page.html", Headline(headline_text(comparison), supporting_text(comparison)),
        figure=page.drawing(figure),
        tables=[
            (
                table_title(comparison, traffic),
                tabular(table_rows(comparison, traffic)),
                table_notes(comparison, traffic),
            )
            for traffic in TRAFFIC
        ],
        scenario=text, engine=comparison.engine, seeds=config.seeds,
    )  # fmt: skip
