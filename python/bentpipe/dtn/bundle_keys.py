"""The keys that a node on real sockets signs and checks bundles with: a file that has each by its name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bentpipe.dtn.contact_plan import tables
from bentpipe.scenario.errors import ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bentpipe.scenario.dtn.integrity import Integrity

__all__ = ["secrets_of"]

LEAST_BYTES = 16
"""Of a key: that of the examples of RFC 9173."""

OTHERS = 0o077
"""Rights of a file that its owner alone has no use for; ssh refuses a key with any of them."""


def secrets_of(found: Integrity, file: Path | None, source: str) -> dict[str, str]:
    """The keys that ``found`` names, in hexadecimal digits; no message shows one.

    Args:
        found: what a node signs and checks.
        file: where keys are.
        source: the node's file, for messages.

    Raises:
        ScenarioError: there is no such file or key, or what is wrong with it.
    """
    named = {} if found.sign is None else {"integrity.sign": found.sign}
    named |= {f"integrity.check.{node}": name for node, name in found.check.items()}
    if file is None:
        text = "is missing, expected the file that has the keys of integrity"
        raise ScenarioError([("keys", text)], source)
    known = _read(file)
    if problems := [
        (key, unknown_name(name, known, "key")) for key, name in named.items() if name not in known
    ]:
        raise ScenarioError(problems, source)
    return {name: known[name] for name in named.values()}


def _read(file: Path) -> Mapping[str, str]:
    if file.suffix not in (".toml", ".json"):
        text = 'expected keys in TOML (.toml) or JSON (.json), each as NAME = "HEXADECIMAL DIGITS"'
        raise ScenarioError([("", text)], str(file))
    if file.exists() and (mode := file.stat().st_mode & 0o777) & OTHERS:
        text = f"others may read or write it (mode {mode:03o}), expected its owner alone: chmod 600 {file}"
        raise ScenarioError([("", text)], str(file))
    known = tables(file, "a table of keys")
    for name, digits in known.items():
        if not isinstance(digits, str) or not re.fullmatch("([0-9a-fA-F]{2})*", digits):
            text = "expected a text of hexadecimal digits, two a byte"
            raise ScenarioError([(name, text)], str(file))
        if len(digits) < 2 * LEAST_BYTES:
            text = f"found {len(digits) // 2} bytes, expected at least {LEAST_BYTES}"
            raise ScenarioError([(name, text)], str(file))
    return known
