"""Commands ``presets``: the list of access networks, and presets as files of other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli.common import AsJson, options
from bentpipe.preset_export.formats import FORMATS

__all__ = ["presets"]

presets = typer.Typer(invoke_without_command=True, add_completion=False)


@presets.callback()
def list_presets(context: typer.Context, as_json: AsJson = False) -> None:
    """List accesses for [path] preset = "NAME", or export them. Every number has its source."""
    from dataclasses import asdict

    from bentpipe.cli.console import emit, print_table
    from bentpipe.scenario.presets import presets as known

    if context.invoked_subcommand is not None:
        return
    if as_json:
        emit([asdict(preset) for preset in known()])
        return
    print_table([{"preset": p.name, "description": p.title, "source": p.source} for p in known()])


@presets.command()
def export(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="preset, or a file with one (TOML); several"),
    ],
    format_name: Annotated[
        str,
        typer.Option("--format", "-f", metavar="FORMAT", help=f"format of the files ({', '.join(FORMATS)})"),
    ],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="DIR", help="target directory; -: standard output")
    ] = "-",
) -> None:
    """Write presets as files of another tool, with comments on what it cannot express."""
    from bentpipe.preset_export.export import render_files, render_text, write_files

    with options(NAME="NAME"):
        if out == "-":
            sys.stdout.write(render_text(names, format_name))
        else:
            print(*write_files(render_files(names, format_name), Path(out)), sep="\n")


@presets.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="preset")]) -> None:
    """Print a preset as TOML: its source, and the keys of its path that --set changes."""
    from bentpipe.scenario.presets import preset_text

    with options(name="NAME"):
        sys.stdout.write(preset_text(name))


@presets.command()
def schema() -> None:
    """Print the JSON schema of --format json."""
    from bentpipe.cli.console import emit
    from bentpipe.preset_export.json_document import json_schema

    emit(json_schema())
