"""Archive of the stores of a summary table, from which anyone can reproduce the table."""

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

STORE_FILES = ("journal.jsonl", "plan.json", "scenario.toml")
UNUSED_TABLES = frozenset(
    {"packets.parquet", "requests.parquet", "controller_state.parquet", "events.parquet"}
)
"""Tables that no comparison reads."""


def publish(stores: Iterable[Path], archive: Path) -> None:
    """Write the files of ``stores`` that a comparison reads into ``archive`` (tar, xz).

    The archive has the resolved specs and tables of finished runs with checksums, without tables of packets and
    requests and without captures. Each unpacked directory is a store. The same stores give the same bytes.

    Raises:
        bentpipe.StoreError: a run is damaged.
    """
    with atomic_file(archive) as part, tarfile.open(part, "w:xz", format=tarfile.PAX_FORMAT) as whole:
        for store in sorted(stores):
            for name, data in _files(store):
                # TarInfo without time and owner: the bytes do not depend on the host.
                info = tarfile.TarInfo(f"{store.name}/{name}")
                info.size, info.mode = len(data), 0o644
                whole.addfile(info, io.BytesIO(data))


def _files(store: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the published files of a store."""
    for name in STORE_FILES:
        if (store / name).is_file():
            yield name, read_input(store / name, links=False)
    index = Store(store).load_index()
    for run, files in _runs(index):
        published = {name: files[name] for name in sorted(files) if _is_published(name)}
        for name, data in published.items():
            yield f"runs/{run}/{name}", data
        if None not in index.folders[run].files.values():
            yield f"runs/{run}/{SUMS}", listing({name: checksum(data) for name, data in published.items()})


def _runs(index: StoreIndex) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield every run with its files; packed runs have their original files."""
    from bentpipe.store.pack import extract_runs

    packs: dict[str, Iterator[tuple[str, dict[str, bytes]]]] = {}
    for run, folder in sorted(index.folders.items()):
        path = index.store / folder.name
        if folder.packed is None:
            names = [name for name in folder.files if _is_published(name)]
            index.check((folder, name) for name in names)
            yield run, {name: (path / name).read_bytes() for name in names}
            continue
        if folder.name not in packs:
            names = [name for name in folder.files if name.endswith(".parquet")]
            index.check((folder, name) for name in names)
            members = sorted(member for member, pack in index.folders.items() if pack is folder)
            packs[folder.name] = extract_runs(path, filter(_is_published, names), members)
        yield next(packs[folder.name])


def _is_published(name: str) -> bool:
    return name == "spec.json" or (name.endswith(".parquet") and name not in UNUSED_TABLES)
