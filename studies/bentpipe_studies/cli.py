"""Command ``study``: reproduce a published study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import figure_options
from bentpipe.cli.common import FAILED, AsJson, Jobs, Seeds, interruptible, options
from bentpipe.cli.run import Engine, known_engine

__all__ = ["study"]


def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="study such as andreotti-2025")],
    part: Annotated[str | None, typer.Option(metavar="X", help="only this part")] = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="directory of the stores [default: out/NAME]")
    ] = None,
    engine: Engine = "sim",
    full: Annotated[
        bool, typer.Option("--full", help="all points with the publication's run lengths (hours)")
    ] = False,
    figures: figure_options.Folder = None,
    only_figure: Annotated[
        list[str] | None,
        typer.Option("--figure", metavar="KEY", help="only this figure of --figures; repeatable"),
    ] = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    no_title: figure_options.NoTitle = False,
    as_json: AsJson = False,
) -> None:
    """Run a published study. Prints published against measured, with a verdict a row."""
    import bentpipe_studies
    from bentpipe.cli.console import answer, watch

    known_engine(engine)
    files = figure_options.files(figures, only_figure, forms, width, no_title, which="--figure")
    observer = watch(quiet=as_json)
    with options(name="NAME", part="--part"), interruptible():
        output = bentpipe_studies.run(
            name,
            part=part,
            seeds=seeds,
            jobs=jobs,
            out=out,
            engine=engine,
            watch=observer,
            full=full,
            files=files,
        )
    answer(output, as_json=as_json)
    if not output.good:
        raise typer.Exit(FAILED)
