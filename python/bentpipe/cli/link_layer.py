"""Command ``link-layer``: HARQ, RLC and reordering settings for TCP, QUIC and a call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import figure_options
from bentpipe.cli.common import FAILED, AsJson, Jobs, Settings, folder, interruptible, options
from bentpipe.cli.open_page import Open, open_page

__all__ = ["link_layer"]


def link_layer(
    access: Annotated[
        str,
        typer.Argument(metavar="[ACCESS]", help="mobile preset (bentpipe presets) or scenario (TOML)"),
    ] = "nr-ntn-leo",
    settings: Settings = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--setting", metavar="LABEL", help="compare only this setting with the baseline; repeatable"
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="baseline of the comparison [default: the first setting]"),
    ] = None,
    congestion: Annotated[
        str, typer.Option(metavar="NAME", help="congestion controller of TCP and QUIC")
    ] = "cubic",
    codec: Annotated[str, typer.Option(metavar="NAME", help="codec of the call")] = "g711",
    duration: Annotated[str, typer.Option(metavar="TIME", help="duration of each run")] = "30 s",
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="size of the downloads, such as 5MB [default: the whole run]"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="number of seeds")] = 5,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="output directory [default: out/link-layer-ACCESS]"),
    ] = None,
    figures: figure_options.Folder = None,
    only_figure: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    no_title: figure_options.NoTitle = False,
    show_page: Open = False,
    as_json: AsJson = False,
) -> None:
    """Compare HARQ, RLC and reordering settings for TCP, QUIC and a call."""
    from bentpipe.cli.console import answer, watch
    from bentpipe.link_layer import find_access, parse_config, run, split_settings

    folder(out)
    files = figure_options.files(figures, only_figure, forms, width, no_title)
    with options(access="ACCESS"), interruptible():
        of_path, remaining = split_settings(settings or ())
        resolved = find_access(access, of_path)
        config = parse_config(
            resolved,
            congestion=congestion,
            codec=codec,
            duration=duration,
            size=size,
            seeds=seeds,
            only=tuple(only or ()),
            baseline=baseline,
        )
        directory = out or Path("out") / f"link-layer-{resolved.name}"
        output = run(
            config, directory, jobs=jobs, settings=remaining, watch=watch(quiet=as_json), files=files
        )
    answer(output, as_json=as_json)
    if show_page and output.page is not None:
        open_page(output.page)
    if not output.good:
        raise typer.Exit(FAILED)
