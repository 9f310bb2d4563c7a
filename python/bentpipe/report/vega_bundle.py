"""JavaScript bundle of Vega, Vega-Lite and Vega-Embed for the Vega-Lite version of Altair.

vl-convert needs a second to build the bundle, as long as the rest of a report. The result is always the same, so the
user's cache directory has a copy. If the cache is missing or damaged, the bundle is built again.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING

from bentpipe.store.cache_dir import cache_directory
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["library"]


def library() -> str:
    """Return the script, escaped for inline use in a page."""
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    folder = cache_directory()
    version_of_builder = metadata.version("vl-convert-python")
    place = folder / f"vega-{version}-vl-convert-{version_of_builder}.js" if folder is not None else None
    if place is not None and (cached := _read_cache(place)) is not None:
        return cached
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    script = str(script).replace("</script", "<\\/script")
    if place is not None:
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, _head(script.encode()) + script.encode())
    return script


def _read_cache(place: Path) -> str | None:
    """Return the cached script; None if the file is missing or its checksum differs."""
    try:
        head, _, script = place.read_bytes().partition(b"\n")
    except OSError:
        return None
    return script.decode() if head + b"\n" == _head(script) else None


def _head(script: bytes) -> bytes:
    return f"// sha256 {hashlib.sha256(script).hexdigest()}\n".encode()
