"""Command ``fit``: a preset from logs of a link."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import figure_options
from bentpipe.cli.common import AsJson, folder, options

__all__ = ["fit"]


def fit(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="pings (ping -D), iperf3 JSON, Mahimahi's and LeoReplayer's traces, CSV; KIND=FILE says which",
        ),
    ],
    up: Annotated[
        list[str] | None, typer.Option("--up", metavar="FILE", help="a log of the uplink's rate; repeatable")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="where everything goes")] = Path(
        "out/fit"
    ),
    name: Annotated[str, typer.Option(metavar="NAME", help="of the preset")] = "fitted",
    interval: Annotated[str, typer.Option(metavar="TIME", help="length of a slot")] = "15 s",
    phase: Annotated[
        str | None, typer.Option(metavar="TIME", help="where slots begin; default: it is looked for")
    ] = None,
    figures: figure_options.Folder = None,
    only: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    no_title: figure_options.NoTitle = False,
    as_json: AsJson = False,
) -> None:
    """Fit a link model to measurement logs. Write a preset, a page and the logs as traces."""
    from bentpipe.cli.console import answer
    from bentpipe.fit import run

    folder(out)
    figure_export = figure_options.files(figures, only, forms, width, no_title)
    with options():
        output = run(files, up or [], out, name, interval, phase, figure_export)
    answer(output, as_json=as_json)
