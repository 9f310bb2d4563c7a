"""Example scenarios of the package, to copy and to change: ``bentpipe examples``."""

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
    """Example scenario: its name, title and file, and the input files that it names."""

    name: str
    title: str
    file: Path
    input_files: tuple[Path, ...]


def examples() -> list[Example]:
    """Return all examples by name: first single files, then directories."""
    folder = _folder()
    documents = {file: tomllib.loads(file.read_text(encoding="utf-8")) for file in folder.rglob("*.toml")}
    scenarios = [
        Example(
            file.relative_to(folder).with_suffix("").as_posix(), str(data.get("title", "")), file,
            tuple(sorted({file.parent / name for name in _file_names(data) if (file.parent / name).is_file()})),
        )
        for file, data in documents.items() if "duration" in data
    ]  # fmt: skip
    return sorted(scenarios, key=lambda one: (one.name.count("/"), one.name))


def example(name: str) -> Example:
    """Return the example ``name``, with or without ``.toml``. Raises ScenarioError if there is none."""
    known = {one.name: one for one in examples()}
    key = name.removesuffix(".toml").removeprefix("scenarios/")
    if key not in known:
        raise ScenarioError([("name", unknown_name(name, list(known), "scenario"))], SOURCE_ARGUMENT)
    return known[key]


def _folder() -> Path:
    folder = path_of("scenarios")
    if folder is None:
        raise ScenarioError([("", "no directory scenarios: the package is incomplete")])
    return folder


def _file_names(value: Any) -> Iterator[str]:
    """Yield the texts of a document that may name files: non-empty and without white space."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _file_names(item)
    elif isinstance(value, str) and value and value == "".join(value.split()):
        yield value
