"""What statistics, figures and reports read of a store: plain frames, only of finished runs.

A store is a directory (docs/manual/results.md): ``scenario.toml``, ``plan.json`` and ``runs/ID/TABLE.parquet``.
Reading never changes it and never runs anything. Rows come in the plan's order of runs and in the order in which a
run wrote them, so everything computed from them is the same on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl


class NotAStore(ValueError):
    """The directory is not a store, or no run in it has finished."""


@dataclass(frozen=True)
class Reading:
    """A store, opened for reading.

    ``runs`` has one row per finished run: ``run`` (its id), ``seed`` and one column of text per key of the sweep
    that is in ``keys``; ``planned`` counts the unfinished ones too.
    """

    path: Path
    title: str
    engine: str
    scenario: str
    keys: tuple[str, ...]
    runs: pl.DataFrame
    planned: int

    def table(self, name: str, columns: Sequence[str] | None = None, runs: Iterable[str] | None = None) -> pl.DataFrame:
        """Table ``name`` of all finished runs (or of ``runs``), with the run's id in ``run``.

        Text is ``String`` whatever the file holds. Runs that do not have the table are left out; when none has,
        the frame is empty and has no columns but ``run``.
        """
        wanted = self.runs["run"].to_list() if runs is None else list(runs)
        files = {str(file): run for run in wanted if (file := self.path / "runs" / run / f"{name}.parquet").is_file()}
        if not files:
            return pl.DataFrame(schema={"run": pl.String})
        scan = pl.scan_parquet(list(files), glob=False, include_file_paths="run")
        rows = scan.select("run", *(columns or [pl.exclude("run")])).collect()
        texts = [column for column, kind in rows.schema.items() if kind in (pl.Categorical, pl.Enum)]
        return rows.with_columns(
            pl.col("run").replace_strict(list(files), list(files.values()), return_dtype=pl.String),
            pl.col(texts).cast(pl.String),
        )


def cell_value(value: Any) -> str:
    """A sweep's value as text: strings as they are, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_store(path: Path | str) -> Reading:
    """Open the store at ``path``. Raises NotAStore with a sentence that says what is missing."""
    path = Path(path)
    plan_file = path / "plan.json"
    if not plan_file.is_file():
        raise NotAStore(f"{path} is not a store: it has no plan.json")
    plan = json.loads(plan_file.read_text(encoding="utf-8"))
    planned = plan["runs"]
    keys: dict[str, None] = {key: None for run in planned for key in run.get("cell", {})}
    finished = [run for run in planned if (path / "runs" / run["id"] / "summary.parquet").is_file()]
    if not finished:
        raise NotAStore(f"no run of {path} has finished ({len(planned)} are planned)")
    data: dict[str, list[Any]] = {
        "run": [run["id"] for run in finished],
        "seed": [int(run["seed"]) for run in finished],
    }
    for key in keys:
        data[key] = [cell_value(run["cell"][key]) if key in run["cell"] else None for run in finished]
    scenario = path / "scenario.toml"
    return Reading(
        path=path,
        title=str(plan.get("title") or path.name),
        engine=str(plan.get("engine", "")),
        scenario=scenario.read_text(encoding="utf-8") if scenario.is_file() else "",
        keys=tuple(keys),
        runs=pl.DataFrame(data, schema={"run": pl.String, "seed": pl.Int64, **dict.fromkeys(keys, pl.String)}),
        planned=len(planned),
    )
