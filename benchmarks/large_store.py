"""Store of 100,000 runs for the benchmark of commands: copies of real runs with new ids."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.store import plan_file
from bentpipe.store.codec import TABLES
from bentpipe.store.files import checksum, write_directory_atomic
from bentpipe.store.index import LIST, pack_name, packs
from bentpipe.store.pack import SPECS, contents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["grow"]

AXES: Mapping[str, Sequence[str]] = {
    "path.satellite.delay": [f"{delay} ms" for delay in range(50, 550, 50)],
    "path.satellite.both.rate": [f"{rate} Mbit/s" for rate in range(2, 22, 4)],
    "path.satellite.up.loss": ["0 %", "0.1 %", "0.2 %", "0.5 %", "1 %"],
    "flow.bulk.congestion": ["newreno", "cubic", "hybla", "bbr"],
}
"""Axes with 1,000 cells."""

SEEDS = 100
"""Seeds of each cell."""


def grow(store: Path, large: Path, axes: Mapping[str, Sequence[str]] = AXES, seeds: int = SEEDS) -> int:
    """Fill ``large`` with copies of the packs of ``store``, with an id for each seed of each cell of ``axes``.

    The copied rows keep the values of the original runs.

    Returns:
        Number of runs in ``large``.
    """
    cells = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    planned: list[dict[str, Any]] = [
        {"id": _id(cell, seed), "seed": seed, "cell": cell} for cell in cells for seed in range(1, seeds + 1)
    ]
    source = [_read(store / "packs" / name) for name in packs(store)]
    (large / "packs").mkdir(parents=True)
    (large / "runs").mkdir()
    unused_ids = [run["id"] for run in planned]
    for runs, specs, frames in itertools.cycle(source):
        if not unused_ids:
            break
        new_ids = dict(zip(runs, unused_ids, strict=False))
        unused_ids = unused_ids[len(new_ids) :]
        files = contents(
            {name: _replace_ids(frame, new_ids) for name, frame in frames.items()},
            {new_ids[run]: specs[run] for run in new_ids},
            {run_id: checksum(run_id.encode()) for run_id in new_ids.values()},
        )
        write_directory_atomic(large, f"packs/{pack_name(files[LIST])}", files)
    scenario = (store / "scenario.toml").read_bytes()
    (large / "scenario.toml").write_bytes(scenario)
    head = json.loads((store / "plan.json").read_text(encoding="utf-8"))
    del head["runs"], head["sha256"]
    (large / "plan.json").write_text(plan_file.written(head, planned), encoding="utf-8")
    return len(planned)


def _id(cell: Mapping[str, str], seed: int) -> str:
    return hashlib.sha256(json.dumps([cell, seed]).encode()).hexdigest()[:16]


def _read(pack: Path) -> tuple[list[str], dict[str, str], dict[str, pl.DataFrame]]:
    """Return the runs of a pack, their specs and their tables."""
    specs = dict(pl.read_parquet(pack / SPECS).iter_rows())
    tables = [name for name in TABLES if (pack / f"{name}.parquet").is_file()]
    return list(specs), specs, {name: pl.read_parquet(pack / f"{name}.parquet") for name in tables}


def _replace_ids(frame: pl.DataFrame, new_ids: Mapping[str, str]) -> pl.DataFrame:
    """Return the rows of the runs in ``new_ids``, under their new ids."""
    if len(frame) and frame["run"].n_unique() > len(new_ids):
        frame = frame.filter(pl.col("run").is_in(list(new_ids)))
    return frame.with_columns(
        pl.col("run").replace_strict(list(new_ids), list(new_ids.values()), return_dtype=pl.String)
    )
