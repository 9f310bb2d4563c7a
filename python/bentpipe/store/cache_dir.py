"""Where a user's caches of ours are: what can be made again."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["caches"]


def caches() -> Path | None:
    """Where caches of ours are kept (XDG Base Directory Specification); None for a user without a home."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():  # the specification has others ignored
        return given / "bentpipe"
    try:
        return Path.home() / ".cache" / "bentpipe"
    except RuntimeError:
        return None
