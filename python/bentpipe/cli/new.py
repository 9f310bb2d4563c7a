"""Command ``new``: a commented scenario from a few answers."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli.common import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["new"]


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="scenario to write")] = Path("scenario.toml"),
    down: Annotated[
        str | None, typer.Option(metavar="RATE", help="rate from server to client, such as 50Mbit/s")
    ] = None,
    up: Annotated[str | None, typer.Option(metavar="RATE", help="rate from client to server")] = None,
    rtt: Annotated[str | None, typer.Option(metavar="TIME", help="round-trip time such as 600ms")] = None,
    loss: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help='packet loss of each direction, such as "0.1%" [default: none]'),
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOAD",
            help="download for a time (30s) or of a size (10MB), page or call; repeatable, a flow for each",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="access of bentpipe presets, instead of rates, RTT and loss"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite FILE")] = False,
) -> None:
    """Write a commented scenario from rates, RTT, loss and load, or from a preset and a load.

    Without these options, the command asks for them at a terminal.
    """
    from bentpipe.api.plan import plan_document
    from bentpipe.cli.console import patience
    from bentpipe.plan.document import load_scenario
    from bentpipe.scenario.errors import NO_FILE, ScenarioError
    from bentpipe.scenario.input_file import parse_toml
    from bentpipe.scenario.new_scenario import NewScenario, write_scenario
    from bentpipe.store.files import write_atomic

    _require_target(file, force=force)
    given: dict[str, Any] = {"down": down, "up": up, "rtt": rtt, "loss": loss, "load": load}
    answers: dict[str, Any]
    if preset is not None:
        answers = _parse_preset(preset, given)
    elif not any(given.values()) and sys.stdin.isatty() and sys.stderr.isatty():
        answers = {_field(name): _ask(question, parse) for name, (question, parse) in _questions().items()}
    else:
        answers = _parse_options(given)
    text = write_scenario(NewScenario(**answers))
    # A plan also finds what only the whole scenario shows, such as a queue of no packet.
    try:
        plan = plan_document(load_scenario(parse_toml(text)), on_cell=patience())
        if preset is not None:
            with_seeds = write_scenario(NewScenario(**answers, has_seeds=True))
            # A cell that does not depend on the seed has one run.
            if len(plan_document(load_scenario(parse_toml(with_seeds))).runs) > len(plan.runs):
                text = with_seeds
    except ScenarioError as error:
        raise ScenarioError(error.problems, NO_FILE) from None
    is_replaced = file.exists()
    write_atomic(file, text.encode())
    print(f"{'overwrote' if is_replaced else 'wrote'} {file}; go on with:", file=sys.stderr)
    name = shlex.quote(str(file))
    print(f"bentpipe check {name}", f"bentpipe run {name}", sep="\n")
    print(f"bentpipe show {shlex.quote(str(Path('out') / file.stem))}")


def _parse_preset(preset: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers for the path of a preset."""
    from bentpipe.scenario.errors import unknown_name
    from bentpipe.scenario.new_scenario import parse_loads, preset_loss
    from bentpipe.scenario.package_data import preset_names
    from bentpipe.scenario.quantities import UnitError

    if excess := [f"--{name}" for name, text in given.items() if text and name != "load"]:
        refuse(f"--preset: found {', '.join(excess)} beside it, expected only --load; the preset has a path")
    if preset not in preset_names():
        refuse(f"--preset: {unknown_name(preset, preset_names(), 'preset')}")
    if not given["load"]:
        refuse('--load: missing, expected a load such as "30s", "10MB", page or call')
    try:
        return {"preset": preset, "loads": parse_loads(given["load"]), "loss": preset_loss(preset)}
    except UnitError as error:
        refuse(f"--load: {error}")


def _require_target(file: Path, *, force: bool) -> None:
    """Refuse a file that cannot be written, or that exists without ``--force``."""
    if file.is_dir():
        refuse(f"FILE: {file} is a folder, expected the name of a file to write")
    if not file.parent.is_dir():
        refuse(f"FILE: no folder {file.parent}, expected an existing folder")
    if file.exists() and not force:
        refuse(f"FILE: {file} exists; choose another name, or overwrite it with --force")


def _questions() -> Mapping[str, tuple[str, Callable[[str], Any]]]:
    """Return question and parser of each answer, by option."""
    from bentpipe.scenario.new_scenario import parse_loads, parse_rtt
    from bentpipe.scenario.quantities import Probability, Rate

    return {
        "down": ("Rate from server to client (such as 50 Mbit/s)", Rate.parse),
        "up": ("Rate from client to server (such as 5 Mbit/s)", Rate.parse),
        "rtt": ("Round-trip time (such as 600 ms)", parse_rtt),
        "loss": ("Packet loss of each direction (such as 0.1 %, or 0)", Probability.parse),
        "load": (
            "Load (a time such as 30 s, a size such as 10 MB, page, call, or call and 30 s)",
            parse_loads,
        ),
    }


def _ask(question: str, parse: Callable[[str], Any]) -> Any:
    """Return the answer to a question; ask again after an invalid one."""
    while True:
        print(f"{question}: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            refuse("no more answers; give --down, --up, --rtt, --loss and --load instead")
        try:
            return parse(line.strip())
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)


def _field(name: str) -> str:
    """Return the field of :class:`NewScenario` of an answer."""
    return "loads" if name == "load" else name


def _parse_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parsed options. One message has all invalid and all missing ones."""
    from bentpipe.scenario.errors import NO_FILE, ScenarioError

    answers: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for name, (_, parse) in _questions().items():
        text = given[name] or DEFAULTS.get(name)
        if not text:
            continue
        try:
            answers[_field(name)] = parse(text)
        except ValueError as error:
            problems.append((f"--{name}", str(error)))
    if missing := [f"--{name}" for name, text in given.items() if not text and name not in DEFAULTS]:
        example = "--down 50Mbit/s --up 5Mbit/s --rtt 600ms --loss 0.1% --load 30s"
        problems.append((", ".join(missing), f"missing, expected all of them, such as {example}"))
    if problems:
        raise ScenarioError(problems, NO_FILE)
    return answers


DEFAULTS = {"loss": "0 %"}
"""Values of options that are not given."""
