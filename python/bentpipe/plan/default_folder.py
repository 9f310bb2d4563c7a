"""Default output directories of commands and functions that answer one question."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["default_folder"]

MAX_FOLDER_SUFFIX = 64
"""Longest readable suffix of a default folder, characters."""


def default_folder(name: str, changes: Sequence[str]) -> Path:
    """Return the default output directory of a command, with the changed keys, so that each scenario has its own.

    Args:
        name: name of the directory without changes.
        changes: ``KEY=VALUE`` texts. Long ones become the first eight digits of their SHA-256 checksum.
    """
    if not changes:
        return Path("out") / name
    words = [re.sub(r"[^\w.=%+-]+", "", text.removeprefix("path.")) for text in changes]
    suffix = "-".join(words)
    if len(suffix) > MAX_FOLDER_SUFFIX or any(re.search(r"[\[{,]", text) for text in changes):
        suffix = hashlib.sha256("\n".join(changes).encode()).hexdigest()[:8]
    return Path("out") / f"{name}-{suffix}"
