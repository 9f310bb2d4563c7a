"""Changes of stores in place, with their checksums: tests change the numbers of a store and not its integrity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from bentpipe.store.files import SUMS, checksum, listing, read_listing


def put(frame: pl.DataFrame, file: Path) -> None:
    """Writes a table of a run."""
    frame.write_parquet(file)
    sign(file)


def sign(file: Path) -> None:
    """Updates the checksum of one file of a run."""
    list_file = file.with_name(SUMS)
    sums = read_listing(list_file.read_text()) if list_file.exists() else {}
    assert sums is not None
    list_file.write_bytes(listing(sums | {file.name: checksum(file.read_bytes())}))


def change_plan(store: Path, **changes: Any) -> None:
    """Changes keys of ``plan.json``."""
    plan = json.loads((store / "plan.json").read_text()) | changes
    plan.pop("sha256", None)
    body = json.dumps(plan)[:-1]
    (store / "plan.json").write_text(f'{body}, "sha256": "{checksum(body.encode())}"}}\n')
