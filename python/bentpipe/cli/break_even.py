"""Command ``break-even``: QUIC, TCP or split TCP, over object size and round-trip time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import figure_options
from bentpipe.cli.common import AsJson, Jobs, Settings, interruptible, options
from bentpipe.cli.open_page import Open, finish

__all__ = ["break_even"]


def break_even(
    access: Annotated[
        str | None,
        typer.Argument(metavar="[ACCESS]", help="preset (bentpipe presets) or scenario (TOML)"),
    ] = None,
    down: Annotated[
        str | None, typer.Option(metavar="RATE", help="downlink rate such as 50Mbit/s, without ACCESS")
    ] = None,
    up: Annotated[str | None, typer.Option(metavar="RATE", help="uplink rate")] = None,
    rtt: Annotated[str | None, typer.Option(metavar="TIME", help="round-trip time such as 620ms")] = None,
    loss: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="random packet loss of the access, each direction, such as 1%"),
    ] = None,
    settings: Settings = None,
    controllers: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="congestion controllers of QUIC [default: cubic; cubic,bbr with --loss]"
        ),
    ] = None,
    windows: Annotated[str, typer.Option(metavar="A,B", help="initial windows of QUIC, packets")] = "10",
    tcp: Annotated[
        str, typer.Option(metavar="NAME", help="congestion controller of TCP servers and PEPs")
    ] = "cubic",
    pep: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="kinds of PEPs: plain, pooled, line-rate "
            "[default: plain,line-rate; plain,pooled with reconfiguration intervals]",
        ),
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(metavar="A,B", help='object sizes, such as "1 kB,1 MB"')
    ] = None,
    rtts: Annotated[
        str | None, typer.Option(metavar="A,B", help='round-trip times, such as "20 ms,600 ms"')
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="seeds of stochastic runs [default: 5 with random loss or delay, else 1]",
        ),
    ] = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="directory of the map [default: out/break-even-ACCESS]"),
    ] = None,
    figures: figure_options.Folder = None,
    only: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    no_title: figure_options.NoTitle = False,
    show_page: Open = False,
    as_json: AsJson = False,
) -> None:
    """Compare page loads over QUIC, TCP and split TCP: should you keep your PEP?"""
    from bentpipe.break_even import parse_config, resolve_access, run
    from bentpipe.break_even.config import SIZES
    from bentpipe.cli.console import watch

    files = figure_options.files(figures, only, forms, width, no_title)
    with options(access="ACCESS"), interruptible():
        resolved, remaining = resolve_access(access, down, up, rtt, settings or (), loss)
        config = parse_config(
            resolved,
            controllers=_split_list(controllers) if controllers is not None else None,
            windows=_split_list(windows),
            tcp=tcp,
            pep=_split_list(pep) if pep is not None else None,
            sizes=_split_list(sizes) if sizes else SIZES,
            rtts=_split_list(rtts) if rtts else None,
            seeds=seeds,
        )
        directory = out or Path("out") / f"break-even-{resolved.name}"
        output = run(
            config, directory, jobs=jobs, settings=remaining, watch=watch(quiet=as_json), files=files
        )
    finish(output, as_json=as_json, show_page=show_page)


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
