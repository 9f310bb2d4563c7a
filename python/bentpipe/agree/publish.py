"""The stores of a standing table as one archive, from which anyone can write the table again."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["publish"]

WHOLE = ("journal.jsonl", "plan.json", "scenario.toml")
LEFT_OUT = frozenset({"packets.parquet", "requests.parquet", "internals.parquet", "events.parquet"})
"""Tables that no comparison reads."""


def publish(stores: Iterable[Path], archive: Path) -> None:
    """Writes what a comparison reads of ``stores`` into ``archive`` (tar, xz); the same stores give the same bytes.

    Finished runs alone: their resolved runs and tables, without single packets, requests and captures. Unpacked,
    each is a store again.
    """
    part = archive.with_name(f".{archive.name}.part")
    try:
        with tarfile.open(part, "w:xz", format=tarfile.PAX_FORMAT) as whole:
            for store in sorted(stores):
                for file in _files(store):
                    # nothing of the machine that wrote it
                    info = tarfile.TarInfo(f"{store.name}/{file.relative_to(store).as_posix()}")
                    info.size, info.mode = file.stat().st_size, 0o644
                    with file.open("rb") as source:
                        whole.addfile(info, source)
        part.replace(archive)
    finally:
        part.unlink(missing_ok=True)


def _files(store: Path) -> Iterator[Path]:
    for name in WHOLE:
        if (store / name).is_file():
            yield store / name
    for run in sorted((store / "runs").iterdir()):
        if not run.name.startswith("."):
            yield run / "spec.json"
            yield from sorted(file for file in run.glob("*.parquet") if file.name not in LEFT_OUT)
