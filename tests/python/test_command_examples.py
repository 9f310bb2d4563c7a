"""Every command has two examples in its help, and each example is a valid command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from bentpipe.cli import app
from bentpipe.cli.command_examples import EXAMPLES

GROUP = typer.main.get_command(app)


def _leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    subcommands = getattr(command, "commands", None)
    if not subcommands:
        yield " ".join(words), command
        return
    for name in subcommands:
        yield from _leaves(subcommands[name], (*words, name))


def test_every_command_has_two_examples() -> None:
    commands = dict(_leaves(GROUP))
    foreign = {"study"}  # of another package, by an entry point
    assert {name for name, examples in EXAMPLES.items() if len(examples) >= 2} == set(commands) - foreign
    for name in EXAMPLES:
        assert "bentpipe " + EXAMPLES[name][0] in commands[name].epilog


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_examples_are_valid_command_lines(line: str) -> None:
    words = shlex.split(line.partition(" > ")[0])
    command, context = GROUP, None
    while hasattr(command, "commands"):
        name = words.pop(0)
        context = typer.Context(command, info_name=name, parent=context)
        command = command.commands[name]
    command.make_context(line, words, parent=context)  # a wrong option or a missing argument raises
