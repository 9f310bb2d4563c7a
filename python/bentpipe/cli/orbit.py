"""Command ``orbit``: routes between two places over a constellation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from bentpipe.cli import figure_options
from bentpipe.cli.common import AsJson, folder, options, refuse

__all__ = ["PlacesCommand", "orbit"]


class PlacesCommand(TyperCommand):
    """Command line with coordinates: a place south of the equator starts with a minus sign, but is no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; a space before a negative latitude distinguishes it from an option."""
        south = re.compile(r"-\d[\d.]*\s*,")
        return super().parse_args(ctx, [f" {word}" if south.match(word) else word for word in args])


def orbit(
    start: Annotated[
        str | None, typer.Argument(metavar="FROM", help='place (--list) or "latitude,longitude"')
    ] = None,
    ends: Annotated[
        list[str] | None, typer.Argument(metavar="TO...", help="destinations; the nearest is selected")
    ] = None,
    constellation: Annotated[
        str,
        typer.Option(
            "--constellation",
            "-c",
            metavar="NAME|FILE",
            help="preset (--list) or elements file: .tle, .txt, .json",
        ),
    ] = "starlink-shell-1",
    duration: Annotated[str, typer.Option(metavar="TIME", help="duration")] = "10 min",
    step: Annotated[str | None, typer.Option(metavar="TIME", help="time step [default: 100 ms]")] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--start", metavar="UTC", help="start such as 2026-11-22T12:00:00Z [default: the epoch]"
        ),
    ] = None,
    elevation: Annotated[
        str | None,
        typer.Option(
            metavar="ANGLE", help='minimum elevation such as "25 deg" [default: that of the constellation]'
        ),
    ] = None,
    links: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="grid or bent-pipe [default: that of the constellation]"),
    ] = None,
    relay: Annotated[
        list[str] | None,
        typer.Option("--relay", metavar="PLACE", help="relay ground station; repeatable"),
    ] = None,
    handover: Annotated[
        str,
        typer.Option(
            metavar="RULE", help="shortest-path, best-elevation, keep-until-lost or periodic (15 s)"
        ),
    ] = "shortest-path",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="set a key of [orbit]: handover.phase=12 s; repeatable"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="write a page, figures and traces into this directory"
        ),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="also write a Mahimahi trace of this rate, with gaps")
    ] = None,
    figures: figure_options.Folder = None,
    only: figure_options.Only = None,
    forms: figure_options.Forms = None,
    width: figure_options.Width = None,
    no_title: figure_options.NoTitle = False,
    list_catalogue: Annotated[bool, typer.Option("--list", help="list constellations and places")] = False,
    as_json: AsJson = False,
) -> None:
    """Compute the route between two places over a constellation."""
    from bentpipe.cli.console import answer

    if list_catalogue:
        from bentpipe.orbit.catalogue import list_names

        answer(list_names(), as_json=as_json)
        return
    if start is None or not ends:
        refuse('FROM and TO: missing, expected two places, such as "Rio de Janeiro" "Saint Petersburg"')
    from bentpipe.orbit import run
    from bentpipe.orbit.query import parse_query

    table = {
        "constellation": constellation, "from": start, "to": ends, "relays": relay or [], "start": begin,
        "step": step, "elevation": elevation, "links": links, "handover": handover,
    }  # fmt: skip
    if rate is not None and out is None:
        refuse("--rate: requires --out, the directory of its trace")
    folder(out)
    files = figure_options.files(figures, only, forms, width, no_title)
    with options():
        output = run(parse_query(table, duration, settings or []), out, rate, files)
    answer(output, as_json=as_json)
