"""A store of 100,000 runs for the bench of commands: a few hundred real ones, again and again, under other ids."""

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
"""1,000 cells."""

SEEDS = 100
"""Of each."""


def grow(store: Path, large: Path, axes: Mapping[str, Sequence[str]] = AXES, seeds: int = SEEDS) -> int:
    """Makes ``large`` of the packed ``store``: its packs with ids of their own for every cell of ``axes`` and seed.

    What is in a row is of the run that it was. Returns how many runs there are.
    """
    cells = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    planned: list[dict[str, Any]] = [
        {"id": _id(cell, seed), "seed": seed, "cell": cell} for cell in cells for seed in range(1, seeds + 1)
    ]
    source = [_read(store / "packs" / name) for name in packs(store)]
    (large / "packs").mkdir(parents=True)
    (large / "runs").mkdir()
    rest = [run["id"] for run in planned]
    for runs, texts, frames in itertools.cycle(source):
        if not rest:
            break
        called = dict(zip(runs, rest, strict=False))
        rest = rest[len(called) :]
        files = contents(
            {name: _renamed(frame, called) for name, frame in frames.items()},
            {called[run]: texts[run] for run in called},
            {new: checksum(new.encode()) for new in called.values()},
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
    """Runs of a pack, what each resolved to, and their tables."""
    texts = dict(pl.read_parquet(pack / SPECS).iter_rows())
    there = [name for name in TABLES if (pack / f"{name}.parquet").is_file()]
    return list(texts), texts, {name: pl.read_parquet(pack / f"{name}.parquet") for name in there}


def _renamed(frame: pl.DataFrame, called: Mapping[str, str]) -> pl.DataFrame:
    """Rows of the runs that are ``called``, under their new ids."""
    if len(frame) and frame["run"].n_unique() > len(called):
        frame = frame.filter(pl.col("run").is_in(list(called)))
    return frame.with_columns(
        pl.col("run").replace_strict(list(called), list(called.values()), return_dtype=pl.String)
    )
