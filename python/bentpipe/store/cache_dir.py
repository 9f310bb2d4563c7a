"""Directory of the user's caches."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_directory"]


def cache_directory() -> Path | None:
    """Return the cache directory of bentpipe (XDG Base Directory Specification); None for a user without a home."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if configured.is_absolute():  # the specification ignores relative paths
        return configured / "bentpipe"
    try:
        return Path.home() / ".cache" / "bentpipe"
    except RuntimeError:
        return None
