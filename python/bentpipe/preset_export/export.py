"""Files of several presets in one format, and their directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.preset_export.access import load_access
from bentpipe.preset_export.formats import find_format
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.preset_export.access import Access

__all__ = ["render_files", "render_text", "write_files"]


def render_files(names: Sequence[str], format_name: str) -> dict[str, str]:
    """Return the files of presets in a format: contents by file name.

    Args:
        names: presets, or files of the user with one.
        format_name: a name of :data:`bentpipe.preset_export.formats.FORMATS`.

    Raises:
        ScenarioError: an unknown format or preset, or an invalid file.
    """
    found = find_format(format_name)
    return {name: text for access in _load(names) for name, text in found.write(access).items()}


def render_text(names: Sequence[str], format_name: str) -> str:
    """Return the only file of the presets as one text. Arguments as for :func:`render_files`.

    Raises:
        ScenarioError: as :func:`render_files`, or the format has several files.
    """
    together = find_format(format_name).write_together
    if together is not None:
        return together(_load(names))
    files = render_files(names, format_name)
    if len(files) > 1:
        text = f"missing, expected a directory for {len(files)} files"
        raise ScenarioError([("out", text)], SOURCE_ARGUMENT)
    return next(iter(files.values()))


def _load(names: Sequence[str]) -> list[Access]:
    """Return the accesses, each once."""
    accesses = [load_access(name) for name in dict.fromkeys(names)]
    found = [access.preset.name for access in accesses]
    duplicate = next((name for name in found if found.count(name) > 1), None)
    if duplicate is not None:
        raise ScenarioError([("NAME", f'found two presets "{duplicate}", expected one')], SOURCE_ARGUMENT)
    return accesses


def write_files(files: Mapping[str, str], directory: Path) -> list[Path]:
    """Write files into a directory, and return their paths. A file with the same content stays.

    Raises:
        ScenarioError: the directory is a file, or has a file of one of these names with other content.
    """
    if directory.exists() and not directory.is_dir():
        raise ScenarioError([("out", f"{directory} is a file, expected a directory")], SOURCE_ARGUMENT)
    targets = {directory / name: text.encode() for name, text in files.items()}
    for target, content in targets.items():
        if target.exists() and (target.is_dir() or target.read_bytes() != content):
            text = f"{target} exists with other content, expected none; choose another directory"
            raise ScenarioError([("out", text)], SOURCE_ARGUMENT)
    directory.mkdir(parents=True, exist_ok=True)
    for target, content in targets.items():
        write_atomic(target, content)
    return list(targets)
