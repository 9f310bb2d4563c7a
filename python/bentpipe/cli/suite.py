"""Command ``suite``: congestion controllers in published scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import figure_options
from bentpipe.cli.common import AsJson, Jobs, folder, interruptible, options
from bentpipe.cli.open_page import Open, finish

__all__ = ["suite"]


def suite(
    controller: Annotated[
        str,
        typer.Option(
            metavar="A,B,...", help="built-in controllers, or NAME=FILE.py:CLASS, separated by commas"
        ),
    ] = "newreno,cubic,hybla,westwood,fast,bbr1,bbr3",
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="only this scenario; repeatable; an unknown NAME lists all"),
    ] = None,
    against: Annotated[
        str, typer.Option(metavar="OTHER", help="another controller, as the baseline of a comparison")
    ] = "",
    quick: Annotated[bool, typer.Option("--quick", help="some scenarios with two seeds")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="number of seeds, instead of the scenarios'")
    ] = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="output directory")] = Path("out/suite"),
    figures: figure_options.Folder = None,
    only_figure: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    no_title: figure_options.NoTitle = False,
    show_page: Open = False,
    as_json: AsJson = False,
) -> None:
    """Run congestion controllers through published scenarios, measured beside published.

    The exit status is 1 if a controller misses an exact value or a bound, or a run fails.
    """
    from bentpipe.cli.console import watch
    from bentpipe.suite import parse_config, run

    folder(out)
    files = figure_options.files(figures, only_figure, forms, width, no_title)
    with options(), interruptible():
        names = [name.strip() for name in controller.split(",") if name.strip()]
        config = parse_config(names, only=tuple(only or ()), quick=quick, seeds=seeds, against=against)
        output = run(config, out, jobs=jobs, watch=watch(quiet=as_json), files=files)
    finish(output, as_json=as_json, show_page=show_page)
