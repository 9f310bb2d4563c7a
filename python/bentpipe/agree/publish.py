"""The stores of a standing table as one archive, from which anyone can write the table again."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

from bentpipe.store.files import SUMS, listing, written_whole
from bentpipe.store.reader import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["publish"]

WHOLE = ("journal.jsonl", "plan.json", "scenario.toml")
LEFT_OUT = frozenset({"packets.parquet", "requests.parquet", "internals.parquet", "events.parquet"})
"""Tables that no comparison reads."""


def publish(stores: Iterable[Path], archive: Path) -> None:
    """Writes what a comparison reads of ``stores`` into ``archive`` (tar, xz); the same stores give the same bytes.

    Finished runs alone: their resolved runs and tables, with checksums of these, without single packets, requests and
    captures. Unpacked, each is a store again.

    Raises:
        bentpipe.StoreError: a run is damaged.
    """
    with written_whole(archive) as part, tarfile.open(part, "w:xz", format=tarfile.PAX_FORMAT) as whole:
        for store in sorted(stores):
            for name, data in _files(store):
                # nothing of the machine that wrote it
                info = tarfile.TarInfo(f"{store.name}/{name}")
                info.size, info.mode = len(data), 0o644
                whole.addfile(info, io.BytesIO(data))


def _files(store: Path) -> Iterator[tuple[str, bytes]]:
    """What is published of a store: names in it, and contents."""
    for name in WHOLE:
        if (store / name).is_file():
            yield name, (store / name).read_bytes()
    kept = Store(store).kept()
    for run, files in sorted(kept.files.items()):
        wanted = {name: files[name] for name in sorted(files) if _wanted(name)}
        place = store / "runs" / run
        kept.check((run, place / name) for name in wanted)
        for name in wanted:
            yield f"runs/{run}/{name}", (place / name).read_bytes()
        sums = {name: checksum for name, checksum in wanted.items() if checksum is not None}
        if sums:
            yield f"runs/{run}/{SUMS}", listing(sums)


def _wanted(name: str) -> bool:
    return name == "spec.json" or (name.endswith(".parquet") and name not in LEFT_OUT)
