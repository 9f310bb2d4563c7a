"""Keys for signatures of bundles of a node on real sockets: a file with a key for each name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bentpipe.dtn.contact_plan import tables
from bentpipe.scenario.errors import ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bentpipe.scenario.dtn.integrity import Integrity

__all__ = ["read_secrets"]

MIN_KEY_BYTES = 16
"""Minimum length of a key: that of the examples of RFC 9173."""

SHARED_MODE = 0o077
"""File permissions of group and others; ssh refuses a private key with any of them."""


def read_secrets(settings: Integrity, file: Path | None, source: str) -> dict[str, str]:
    """Return the keys that ``settings`` name, as hexadecimal digits; no message shows a key.

    Args:
        settings: integrity settings of a node.
        file: file with the keys.
        source: file of the node, for messages.

    Raises:
        ScenarioError: no such file or key, or an invalid one.
    """
    names = {} if settings.sign is None else {"integrity.sign": settings.sign}
    names |= {f"integrity.check.{node}": name for node, name in settings.check.items()}
    if file is None:
        text = "is missing, expected the file with the keys of integrity"
        raise ScenarioError([("keys", text)], source)
    keys = _read(file)
    if problems := [
        (key, unknown_name(name, keys, "key")) for key, name in names.items() if name not in keys
    ]:
        raise ScenarioError(problems, source)
    return {name: keys[name] for name in names.values()}


def _read(file: Path) -> Mapping[str, str]:
    if file.suffix not in (".toml", ".json"):
        text = 'expected keys in TOML (.toml) or JSON (.json), each as NAME = "HEXADECIMAL DIGITS"'
        raise ScenarioError([("", text)], str(file))
    if file.exists() and (mode := file.stat().st_mode & 0o777) & SHARED_MODE:
        text = f"group or others may access it (mode {mode:03o}), expected owner only: chmod 600 {file}"
        raise ScenarioError([("", text)], str(file))
    keys = tables(file, "a table of keys")
    for name, digits in keys.items():
        if not isinstance(digits, str) or not re.fullmatch("([0-9a-fA-F]{2})*", digits):
            text = "expected a text of hexadecimal digits, two a byte"
            raise ScenarioError([(name, text)], str(file))
        if len(digits) < 2 * MIN_KEY_BYTES:
            text = f"found {len(digits) // 2} bytes, expected at least {MIN_KEY_BYTES}"
            raise ScenarioError([(name, text)], str(file))
    return keys
