"""The stores of a standing table as one archive, from which anyone can write the table again."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

from bentpipe.scenario.input_file import read_input
from bentpipe.store.files import SUMS, atomic_file, checksum, listing
from bentpipe.store.reader import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from bentpipe.store.index import StoreIndex

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
    with atomic_file(archive) as part, tarfile.open(part, "w:xz", format=tarfile.PAX_FORMAT) as whole:
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
            yield name, read_input(store / name, links=False)
    kept = Store(store).load_index()
    for run, files in _runs(kept):
        wanted = {name: files[name] for name in sorted(files) if _wanted(name)}
        for name, data in wanted.items():
            yield f"runs/{run}/{name}", data
        if None not in kept.folders[run].files.values():
            yield f"runs/{run}/{SUMS}", listing({name: checksum(data) for name, data in wanted.items()})


def _runs(kept: StoreIndex) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Every run with its files, a packed one as it was before."""
    from bentpipe.store.pack import extract_runs

    taken: dict[str, Iterator[tuple[str, dict[str, bytes]]]] = {}
    for run, folder in sorted(kept.folders.items()):
        place = kept.store / folder.name
        if folder.packed is None:
            names = [name for name in folder.files if _wanted(name)]
            kept.check((folder, name) for name in names)
            yield run, {name: (place / name).read_bytes() for name in names}
            continue
        if folder.name not in taken:
            names = [name for name in folder.files if name.endswith(".parquet")]
            kept.check((folder, name) for name in names)
            own = sorted(one for one, where in kept.folders.items() if where is folder)
            taken[folder.name] = extract_runs(place, filter(_wanted, names), own)
        yield next(taken[folder.name])


def _wanted(name: str) -> bool:
    return name == "spec.json" or (name.endswith(".parquet") and name not in LEFT_OUT)
