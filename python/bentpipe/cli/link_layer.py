"""Command ``link-layer``: HARQ, RLC and reordering settings for TCP, QUIC and a call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import figure_options
from bentpipe.cli.common import AsJson, Jobs, Settings, folder, interruptible, options
from bentpipe.cli.open_page import Open, finish

__all__ = ["link_layer"]


def link_layer(
    access: Annotated[
        str,
        typer.Argument(metavar="[ACCESS]", help="mobile preset (bentpipe presets) or scenario (TOML)"),
    ] = "nr-ntn-leo",
    settings: Settings = None,
    snr: Annotated[
        str | None,
        typer.Option("--snr", metavar="DB", help="signal-to-noise ratio of the channel, such as 7dB"),
    ] = None,
    elevation: Annotated[
        str | None,
        typer.Option(metavar="ANGLE", help="elevation of the satellite for the channel, such as 60deg"),
    ] = None,
    block_error_rate: Annotated[
        str | None,
        typer.Option(metavar="A,B", help='block error rates by attempt without a channel, such as "30%,3%"'),
    ] = None,
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
    playout: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help='play-out of the call: percentile of its delays such as p99, fixed buffer "60 ms", or adaptive',
        ),
    ] = "p99",
    duration: Annotated[str, typer.Option(metavar="TIME", help="duration of each run")] = "30 s",
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="size of the downloads, such as 5MB [default: the whole run]"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="number of seeds")] = 5,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="output directory [default: out/link-layer-ACCESS and changes]"
        ),
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
    from bentpipe.cli.console import watch
    from bentpipe.link_layer import parse_config, resolve_access, run
    from bentpipe.plan.default_folder import default_folder

    folder(out)
    files = figure_options.files(figures, only_figure, forms, width, no_title)
    with options(access="ACCESS", block_error_rate="--block-error-rate"), interruptible():
        resolved, remaining = resolve_access(
            access, settings or (), snr=snr, elevation=elevation, block_error_rate=block_error_rate
        )
        config = parse_config(
            resolved,
            congestion=congestion,
            codec=codec,
            duration=duration,
            size=size,
            seeds=seeds,
            only=tuple(only or ()),
            baseline=baseline,
            playout=playout,
            settings=remaining,
        )
        directory = out or default_folder(f"link-layer-{resolved.name}", config.all_overrides)
        output = run(config, directory, jobs=jobs, watch=watch(quiet=as_json), files=files)
    finish(output, as_json=as_json, show_page=show_page)
