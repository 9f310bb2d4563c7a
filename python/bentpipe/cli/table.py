"""Commands by name, each made when it is asked for: to make all of them takes longer than most of them take."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click.core import Command

__all__ = ["Commands", "group"]


class Commands(Mapping[str, "Command"]):
    """Of ``places``: where each is in this room, as ``module:function``, ``module:function:class``, ``module:app``."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places
        self._made: dict[str, Command] = {}

    def __getitem__(self, name: str) -> Command:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _make(self, name: str) -> Command:
        module, word, *cls = self._places[name].split(":")
        room = importlib.import_module(f"bentpipe.cli.{module}")
        found = getattr(room, word)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.callback()(lambda: None)  # a group, whatever it has
        if isinstance(found, typer.Typer):
            alone.add_typer(found, name=name)
        else:
            alone.command(name=name, cls=getattr(room, cls[0]) if cls else None)(found)
        return typer.main.get_group(alone).commands[name]


def group(places: Mapping[str, str]) -> type[TyperGroup]:
    """The kind of group that has these commands, in this order."""

    class Lazy(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes | {"commands": Commands(places)})

        def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # noqa: ARG002
            return list(self.commands)

    return Lazy
