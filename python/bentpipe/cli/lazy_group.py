"""Command groups that import the module of a command when it is used.

Packages add commands by entry points of the group ``bentpipe.commands.SECTION``, for the section of ``--help`` with
this title. Commands of the group ``bentpipe.commands`` are in the section "Other commands".
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from bentpipe.cli.command_examples import format_examples
from bentpipe.cli.usage_errors import report_usage_errors

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from typer._click.core import Command
    from typer._click.formatting import HelpFormatter

__all__ = ["Commands", "group"]

MAX_SUMMARY = 120
"""Maximum length of a summary in ``--help``, characters; longer ones are truncated."""


class Commands(Mapping[str, "Command"]):
    """Commands by name, imported on first use.

    Args:
        places: ``module:function``, ``module:function:class`` or ``module:app`` in ``bentpipe.cli``, by name.
        entry_points: group of the entry points that add commands, and prefix of the groups of sections.
    """

    def __init__(self, places: Mapping[str, str], entry_points: str | None = None) -> None:
        self._places = places
        self._group = entry_points
        self._commands: dict[str, Command] = {}

    def __getitem__(self, name: str) -> Command:
        if name not in self._commands:
            self._commands[name] = self._create(name)
        return self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._places, *self._entry_points])

    def __len__(self) -> int:
        return len(self._places) + len(self._entry_points)

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points

        if self._group is None:
            return {}
        every = entry_points()
        groups = [group for group in sorted(every.groups) if f"{group}.".startswith(f"{self._group}.")]
        return {point.name: point for group in groups for point in every.select(group=group)}

    @property
    def added_sections(self) -> dict[str, list[str]]:
        """Names of the commands of entry points by title of their section."""
        sections: dict[str, list[str]] = {}
        for name, point in self._entry_points.items():
            title = point.group.removeprefix(str(self._group)).removeprefix(".").replace("_", " ")
            sections.setdefault(title.capitalize() or "Other commands", []).append(name)
        return sections

    def _create(self, name: str) -> Command:
        cls = None
        if name in self._places:
            module_name, function, *class_names = self._places[name].split(":")
            module = importlib.import_module(f"bentpipe.cli.{module_name}")
            loaded = getattr(module, function)
            cls = getattr(module, class_names[0]) if class_names else None
        else:
            loaded = self._entry_points[name].load()
        parent = typer.Typer(add_completion=False, rich_markup_mode=None)
        parent.callback()(lambda: None)  # A callback makes a group, even with one command.
        if isinstance(loaded, typer.Typer):
            parent.add_typer(loaded, name=name)
        else:
            parent.command(name=name, cls=cls)(loaded)
        command = typer.main.get_group(parent).commands[name]
        _add_examples(command, name)
        return command


def _add_examples(command: Command, name: str) -> None:
    """Append the examples to the help of a command, or of each command of a group."""
    subcommands: Mapping[str, Command] = getattr(command, "commands", {})
    for subcommand_name, subcommand in subcommands.items():
        _add_examples(subcommand, f"{name} {subcommand_name}")
    command.epilog = command.epilog or format_examples(name) or None


def group(sections: Mapping[str, Mapping[str, str]], entry_points: str | None = None) -> type[TyperGroup]:
    """Return a class of groups with these commands, in this order.

    Args:
        sections: places of commands (see :class:`Commands`) by section of ``--help``.
        entry_points: Group of the entry points that add commands. Its sub-groups name further sections.
    """
    places = {name: place for section in sections.values() for name, place in section.items()}

    class Lazy(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            self._lazy_commands = Commands(places, entry_points)
            super().__init__(**attributes | {"commands": self._lazy_commands})

        def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # noqa: ARG002
            return list(self.commands)

        def format_commands(  # type: ignore[override]
            self,
            ctx: typer.Context,  # noqa: ARG002
            formatter: HelpFormatter,
        ) -> None:
            width = max(map(len, self.commands))
            for title, section in {**sections, **self._lazy_commands.added_sections}.items():
                rows = [
                    (name.ljust(width), self.commands[name].get_short_help_str(MAX_SUMMARY))
                    for name in section
                    if not self.commands[name].hidden
                ]
                if rows:
                    with formatter.section(title):
                        formatter.write_dl(rows)

    return report_usage_errors(Lazy)
