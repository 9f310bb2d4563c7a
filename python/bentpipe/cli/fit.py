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
            help="logs: ping -D, iperf3 JSON, Mahimahi and LeoReplayer traces, CSV; KIND=FILE sets the "
            "format",
        ),
    ],
    up: Annotated[
        list[str] | None, typer.Option("--up", metavar="FILE", help="log of the uplink rate; repeatable")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="output directory")] = Path(
        "out/fit"
    ),
    name: Annotated[str, typer.Option(metavar="NAME", help="name of the preset")] = "fitted",
    interval: Annotated[str, typer.Option(metavar="TIME", help="reconfiguration interval")] = "15 s",
    phase: Annotated[
        str | None, typer.Option(metavar="TIME", help="phase of the intervals [default: estimated]")
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
