"""Formats of exported presets by name. A new format is a module with ``FORMAT``, and a line of :data:`FORMATS`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name

if TYPE_CHECKING:
    from bentpipe.preset_export.access import Access
    from bentpipe.preset_export.format import Format

__all__ = ["FORMATS", "describe_limits", "find_format"]

FORMATS: Mapping[str, str] = {
    "netem": "netem",
    "mahimahi": "mahimahi",
    "json": "json_document",
}
"""Module of each format, imported when the format is used."""


def find_format(name: str) -> Format:
    """Return a format. Raises ScenarioError if there is none of this name."""
    if name not in FORMATS:
        raise ScenarioError([("format", unknown_name(name, FORMATS, "format"))], SOURCE_ARGUMENT)
    found: Format = import_module(f"bentpipe.preset_export.{FORMATS[name]}").FORMAT
    return found


def describe_limits(access: Access) -> dict[str, list[str]]:
    """Return what each format lacks, for the formats that lack something of any preset."""
    formats = {name: find_format(name) for name in FORMATS}
    return {
        name: list(found.describe_limits(access)) for name, found in formats.items() if found.describe_limits
    }
