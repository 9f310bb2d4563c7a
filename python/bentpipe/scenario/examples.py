"""Scenarios that come with bentpipe, to copy and to change: ``bentpipe examples``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.package_data import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Example", "example", "examples"]


@dataclass(frozen=True)
class Example:
    """A scenario: its name, what it is, its file, and the files beside it that it names."""

    name: str
    title: str
    file: Path
    beside: tuple[Path, ...]


def examples() -> list[Example]:
    """All of them: first those of their own, then the folders, each by name."""
    folder = _folder()
    read = {file: tomllib.loads(file.read_text(encoding="utf-8")) for file in folder.rglob("*.toml")}
    found = [
        Example(
            file.relative_to(folder).with_suffix("").as_posix(), str(data.get("title", "")), file,
            tuple(sorted({file.parent / word for word in _words(data) if (file.parent / word).is_file()})),
        )
        for file, data in read.items() if "duration" in data
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.name.count("/"), one.name))


def example(name: str) -> Example:
    """The scenario ``name``, with ``.toml`` or without. Raises ScenarioError when there is none."""
    known = {one.name: one for one in examples()}
    wanted = name.removesuffix(".toml").removeprefix("scenarios/")
    if wanted not in known:
        raise ScenarioError([("name", unknown_name(name, list(known), "scenario"))], SOURCE_ARGUMENT)
    return known[wanted]


def _folder() -> Path:
    found = path_of("scenarios")
    if found is None:
        raise ScenarioError([("", "the folder scenarios is not there: this package is not whole")])
    return found


def _words(value: Any) -> Iterator[str]:
    """Words of a document that may be files: its texts of one line and no blanks."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _words(one)
    elif isinstance(value, str) and value and value == "".join(value.split()):
        yield value
