"""The script that draws figures: Vega, Vega-Lite and Vega-Embed in one, for the Vega-Lite that Altair writes.

vl-convert takes a second to put it together, as long as all the rest of a report, and it is the same every time. So
it is kept among the user's caches. Whatever is wrong there, a page has its script: it is put together again.
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
    """The script, ready to stand in a page."""
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    folder = cache_directory()
    made_by = metadata.version("vl-convert-python")
    place = folder / f"vega-{version}-vl-convert-{made_by}.js" if folder is not None else None
    if place is not None and (kept := _kept(place)) is not None:
        return kept
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    script = str(script).replace("</script", "<\\/script")
    if place is not None:
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, _head(script.encode()) + script.encode())
    return script


def _kept(place: Path) -> str | None:
    """What ``place`` keeps; None where it is not there, or not what was written."""
    try:
        head, _, script = place.read_bytes().partition(b"\n")
    except OSError:
        return None
    return script.decode() if head + b"\n" == _head(script) else None


def _head(script: bytes) -> bytes:
    return f"// sha256 {hashlib.sha256(script).hexdigest()}\n".encode()
