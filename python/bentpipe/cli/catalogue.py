"""Commands ``examples``, ``check-controller`` and ``check-scheduler``.

They list the contents of the package and test controllers and schedulers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli.common import FAILED, AsJson, options, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_controller", "check_scheduler", "examples"]


def examples(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="scenario to copy [default: list all]")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="target directory [default: current directory]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the example scenarios, or copy one.

    A copy includes the input files of the scenario.
    """
    from bentpipe.cli.console import emit, print_table
    from bentpipe.scenario.examples import example, examples
    from bentpipe.store.files import write_atomic

    if name is None:
        rows = [{"scenario": listed.name, "title": listed.title} for listed in examples()]
        emit(rows) if as_json else print_table(rows)
        return
    with options(name="NAME"):
        chosen = example(name)
    directory = out or Path()
    copies = {directory / file.name: file.read_bytes() for file in (chosen.file, *chosen.input_files)}
    for target, content in copies.items():
        if target.exists() and target.read_bytes() != content:
            refuse(f"{target}: exists with other content; choose another directory with --out DIR")
    directory.mkdir(parents=True, exist_ok=True)
    for target, content in copies.items():
        write_atomic(target, content)
    if as_json:
        emit([str(target) for target in copies])
    else:
        print(*copies, sep="\n")


def check_controller(
    controller: Annotated[
        str, typer.Argument(metavar="NAME|FILE.py:CLASS", help="built-in or user-supplied controller")
    ],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="option of the class; repeatable"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the conformance tests on a congestion controller."""
    from bentpipe.cli.console import emit, print_table
    from bentpipe.conformance import verdicts

    rows = verdicts(controller, option or [])
    if as_json:
        emit(rows)
    else:
        print_table(
            [shown for row in rows for shown in _controller_rows(row)], f"Conformance of {controller}"
        )
    if any(not row["passed"] and row["exemption"] is None for row in rows):
        raise typer.Exit(FAILED)


def check_scheduler(
    scheduler: Annotated[
        str, typer.Argument(metavar="NAME|FILE.py:CLASS", help="built-in or user-supplied scheduler")
    ],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="option of the class; repeatable"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the conformance tests on a scheduler."""
    from bentpipe.cli.console import emit, print_table
    from bentpipe.conformance import of_scheduler

    rows = of_scheduler(scheduler, option or [])
    if as_json:
        emit(rows)
    else:
        print_table([_conformance_row(row, "requirement") for row in rows], f"Conformance of {scheduler}")
    if any(not row["passed"] and row["exemption"] is None for row in rows):
        raise typer.Exit(FAILED)


def _controller_rows(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the table rows of a conformance test: one for each RTT of a published case."""
    parts = row["parts"] or [{"label": "", "passed": row["passed"], "detail": row["detail"]}]
    return [
        _conformance_row({**row, **part, "name": f"{row['name']} {part['label']}".rstrip()}) for part in parts
    ]


def _conformance_row(row: Mapping[str, Any], last: str = "required by") -> dict[str, Any]:
    """Return the table row of a conformance test."""
    verdict = "ok" if row["passed"] else "FAILED" if row["exemption"] is None else "exempt"
    text = row["detail"] if verdict != "exempt" else f"{row['detail']}; exempt: {row['exemption']}"
    return {
        "check": row["name"],
        "": verdict,
        "found": text,
        last: row["source" if last == "required by" else last],
    }
