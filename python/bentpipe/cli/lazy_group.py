"""Command groups that import the module of a command when it is used.

Packages add commands by entry points of the group ``bentpipe.commands``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from typer._click.core import Command
    from typer._click.formatting import HelpFormatter

__all__ = ["Commands", "group"]


class Commands(Mapping[str, "Command"]):
    """Commands by name.

    Args:
        places: ``module:function``, ``module:function:class`` or ``module:app`` in ``bentpipe.cli``, by name.
        entry_points: The group of entry points that adds commands.
    """

    def __init__(self, places: Mapping[str, str], entry_points: str | None = None) -> None:
        self._places = places
        self._group = entry_points
        self._made: dict[str, Command] = {}

    def __getitem__(self, name: str) -> Command:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._places, *self._added])

    def __len__(self) -> int:
        return len(self._places) + len(self._added)

    @cached_property
    def _added(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points

        return {point.name: point for point in entry_points(group=self._group)} if self._group else {}

    def _make(self, name: str) -> Command:
        cls = None
        if name in self._places:
            place, function, *kind = self._places[name].split(":")
            module = importlib.import_module(f"bentpipe.cli.{place}")
            found = getattr(module, function)
            cls = getattr(module, kind[0]) if kind else None
        else:
            found = self._added[name].load()
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.callback()(lambda: None)  # a group, whatever it has
        if isinstance(found, typer.Typer):
            alone.add_typer(found, name=name)
        else:
            alone.command(name=name, cls=cls)(found)
        return typer.main.get_group(alone).commands[name]


def group(sections: Mapping[str, Mapping[str, str]], entry_points: str | None = None) -> type[TyperGroup]:
    """Return a class of groups with these commands, in this order.

    Args:
        sections: places of commands (see :class:`Commands`) by section of ``--help``.
        entry_points: The group of entry points that adds commands. They have a section of their own.
    """
    places = {name: place for section in sections.values() for name, place in section.items()}

    class Lazy(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes | {"commands": Commands(places, entry_points)})

        def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # noqa: ARG002
            return list(self.commands)

        def format_commands(self, ctx: typer.Context, formatter: HelpFormatter) -> None:  # type: ignore[override]
            added = {name: "" for name in self.commands if name not in places}
            width = max(map(len, self.commands))
            for title, section in {**sections, "Studies": added}.items():
                rows = [
                    (name.ljust(width), self.commands[name].get_short_help_str(formatter.width - 6 - width))
                    for name in section
                    if not self.commands[name].hidden
                ]
                if rows:
                    with formatter.section(title):
                        formatter.write_dl(rows)

    return Lazy
