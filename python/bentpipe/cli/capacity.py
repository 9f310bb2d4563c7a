"""Command ``capacity``: how many users fit on an access."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import figure_options
from bentpipe.cli.common import AsJson, Jobs, Settings, folder, interruptible, options
from bentpipe.cli.open_page import Open, finish

__all__ = ["capacity"]


def capacity(
    access: Annotated[
        str | None,
        typer.Argument(metavar="[ACCESS]", help="preset (bentpipe presets) or scenario (TOML)"),
    ] = None,
    down: Annotated[
        str | None, typer.Option(metavar="RATE", help="downlink rate such as 50Mbit/s, without ACCESS")
    ] = None,
    up: Annotated[str | None, typer.Option(metavar="RATE", help="uplink rate")] = None,
    rtt: Annotated[str | None, typer.Option(metavar="TIME", help="round-trip time such as 620ms")] = None,
    pep: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="PEPs of --down, --up, --rtt: none, plain, pooled or line-rate [default: none]",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="random packet loss of the access, each direction, such as 1%"),
    ] = None,
    mix: Annotated[
        str,
        typer.Option(metavar="KIND=SHARE,...", help="shares of the users, or weights: call, page, tcp, quic"),
    ] = "call=0.5,page=0.5",
    mos: Annotated[
        str | None,
        typer.Option(
            metavar="MOS|none",
            help="smallest mean opinion score of a call; none: not required [default: 3.5]",
        ),
    ] = None,
    page: Annotated[
        str | None, typer.Option(metavar="TIME", help="longest page load time, such as 5s")
    ] = None,
    share: Annotated[
        str, typer.Option(metavar="SHARE", help="share of the users of each kind with that quality")
    ] = "95%",
    settings: Settings = None,
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="duration of a run [default: 40s, or more for --page]")
    ] = None,
    warm_up: Annotated[str, typer.Option(metavar="TIME", help="start of a run that does not count")] = "10s",
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="number of seeds")] = 6,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="output directory [default: out/capacity-ACCESS-OPTIONS]"),
    ] = None,
    figures: figure_options.Folder = None,
    only: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    no_title: figure_options.NoTitle = False,
    show_page: Open = False,
    as_json: AsJson = False,
) -> None:
    """Find how many users fit on an access."""
    from bentpipe.capacity import parse_config, resolve_access, run
    from bentpipe.cli.console import watch

    files = figure_options.files(figures, only, forms, width, no_title)
    folder(out)
    with options(access="ACCESS", warm_up="--warm-up"), interruptible():
        resolved = resolve_access(access, down, up, rtt, pep, loss)
        config = parse_config(
            resolved,
            mix=mix,
            mos=mos,
            page=page,
            share=share,
            duration=duration,
            warm_up=warm_up,
            seeds=seeds,
            settings=tuple(settings or ()),
        )
        output = run(config, out or config.default_folder, jobs=jobs, watch=watch(quiet=as_json), files=files)
    finish(output, as_json=as_json, show_page=show_page)
