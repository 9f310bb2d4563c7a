"""Two stores compared: their runs paired by cell of the sweep and seed, a value a run.

Runs without a partner are counted and left out. A run that both stores have and that lacks a flow's direction on
one side delivered nothing there: its goodput is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.metrics.censoring import restricted, restriction_times
from bentpipe.metrics.compare import (
    IMPROVEMENT_SIGN,
    MIN_SEEDS,
    OF_STORES,
    Comparison,
    Criteria,
    Draws,
    Pairs,
    compare_pairs,
)
from bentpipe.metrics.compute import MINOR_SHARE, completion_times
from bentpipe.metrics.groups import as_groups, group_metrics
from bentpipe.metrics.intervals import CONFIDENCE
from bentpipe.metrics.sample_comparison import KINDS
from bentpipe.metrics.scenario_differences import scenario_differences
from bentpipe.plan.flow.controllers import by_name, deterministic_controllers
from bentpipe.plan.randomness import RandomInput, controllers, random_inputs
from bentpipe.scenario.sweep_columns import sweep_key
from bentpipe.store.reader import Store, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.plan.spec.run_spec import RunSpec

__all__ = ["compare_stores"]

Catalogue = Callable[[], Sequence[Mapping[str, Any]]]

_OF_FLOWS = ("goodput_bit_s", "retransmission_ratio")
_OF_RUNS = ("jain", "queueing_p95_ms", "convergence_s")
_OF_STREAMS = ("finished_ratio", "completion_mean_s", "completion_p50_s", "completion_p95_s")
_PRIMARY = frozenset({"finished_ratio", "completion_mean_s", "loads_finished", "plt_s", "goodput_bit_s"})
"""Primary metrics; of a flow with completion or page load times, these and not its goodput."""
_ORDER = {name: place for place, name in enumerate((*IMPROVEMENT_SIGN, *OF_STORES))}
_BROWSER = "-browser,"
_REAL_TIME = ("-emu", _BROWSER)
"""Parts of the engine's version in a store that was made in real time."""


def compare_stores(
    before: Store | Path | str,
    after: Store | Path | str,
    confidence: float = CONFIDENCE,
    criteria: Criteria | None = None,
    catalogue: Catalogue | None = None,
) -> Comparison:
    """Compare two stores.

    Args:
        before: a store.
        after: a store of the same scenario.
        confidence: level of the intervals; each family of comparisons errs with 1 - ``confidence``.
        criteria: metrics that are compared, and the smallest changes that get a verdict.
        catalogue: gives the engine's controllers, which says whether a run without random losses draws; asked only
            where that matters. Without, controllers are taken for user-supplied code.

    Raises:
        StoreError: a directory is no store, or a newer bentpipe's.
        ValueError: no run of one has a partner in the other, or no run has one of the metrics of ``criteria``.
    """
    criteria = criteria or Criteria()
    stores = _Stores(open_store(before), open_store(after), catalogue)
    if not stores.common.height:
        raise ValueError(f"{stores.names} have no run in common (same cell and seed)")
    found = sorted(stores.pairs(criteria), key=lambda one: (not one.primary, _ORDER[one.metric]))
    changes = compare_pairs(found, confidence, criteria)
    if criteria.metrics and not changes:
        raise ValueError(f"{stores.names} have no {' and no '.join(criteria.metrics)}")
    only_before, only_after = stores.unpaired
    notes = [*scenario_differences(stores.before, stores.after, stores.first_specs)]
    notes.extend(
        f"{store.index.height} of {len(store.planned)} runs of {store.path.name} have finished."
        for store in (stores.before, stores.after)
        if store.index.height < len(store.planned)
    )
    return Comparison(changes, only_before, only_after, tuple(notes))


@dataclass
class _Stores:
    """Both stores, and the runs that they have in common."""

    before: Store
    after: Store
    catalogue: Catalogue | None = None

    @property
    def names(self) -> str:
        return f"{self.before.path.name} and {self.after.path.name}"

    @cached_property
    def keys(self) -> list[str]:
        return sorted({*self.before.columns, *self.after.columns})

    @cached_property
    def common(self) -> pl.DataFrame:
        """``KEYS..., seed, run, run_after`` of the runs that both have, in the order of the first store."""
        a, b = (self._index(store) for store in (self.before, self.after))
        by = [*self.keys, "seed"]
        return a.join(b, on=by, how="inner", suffix="_after", nulls_equal=True, maintain_order="left")

    def _index(self, store: Store) -> pl.DataFrame:
        missing = [pl.lit(None, pl.String).alias(key) for key in self.keys if key not in store.columns]
        return store.index.with_columns(missing).select(*self.keys, "seed", "run")

    @cached_property
    def _flows(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """``KEYS..., seed, flow`` of both sides' runs, whether or not the flow delivered anything."""
        first, second = (
            as_groups(rows := store.rows("summary", ["flow"]), rows)
            .select("run", "flow")
            .unique(maintain_order=True)
            for store in (self.before, self.after)
        )
        return self._in_common(first, second)

    def _in_common(self, first: pl.DataFrame, second: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rows of both sides' common runs, with ``KEYS..., seed`` in place of ``run``."""
        places = (
            self.common.select(*self.keys, "seed", "run"),
            self.common.select(*self.keys, "seed", run="run_after"),
        )
        a, b = (
            place.join(rows, on="run", how="inner", maintain_order="left_right").drop("run")
            for place, rows in zip(places, (first, second), strict=True)
        )
        return a, b

    @cached_property
    def _metrics(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Metrics of flows and runs of both sides; every flow of a common run has its directions on both."""
        wanted = ["run", "flow", "direction", "received_bytes", *_OF_FLOWS, *_OF_RUNS]
        return self._whole(
            *self._in_common(*(group_metrics(one).select(wanted) for one in (self.before, self.after)))
        )

    def _whole(self, a: pl.DataFrame, b: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Adds a goodput of 0 where a flow's direction has a row on the other side alone.

        A direction counts by the bytes of both sides: where one side delivers nothing, the request is all that it
        carries.
        """
        of_flow = [*self.keys, "flow"]
        bytes_ = [
            rows.select(*of_flow, "direction", pl.col("received_bytes").cast(pl.Float64)) for rows in (a, b)
        ]
        carried = pl.concat(bytes_).group_by([*of_flow, "direction"], maintain_order=True).agg(pl.all().sum())
        total = pl.col("received_bytes").sum().over(of_flow)
        ways = carried.filter((total == 0) | (pl.col("received_bytes") >= MINOR_SHARE * total)).drop(
            "received_bytes"
        )
        found = []
        for rows, flows in zip((a, b), self._flows, strict=True):
            every = flows.join(ways, on=of_flow, how="inner", nulls_equal=True, maintain_order="left_right")
            by = [*self.keys, "seed", "flow", "direction"]
            whole = every.join(rows, on=by, how="left", nulls_equal=True, maintain_order="left")
            found.append(whole.with_columns(pl.col("goodput_bit_s").fill_null(0.0)))
        return found[0], found[1]

    @property
    def unpaired(self) -> tuple[int, int]:
        """Flows of runs of either side that have no partner."""
        counts = []
        for store, own, other in zip(
            (self.before, self.after), self._flows, reversed(self._flows), strict=True
        ):
            by = [*self.keys, "seed", "flow"]
            rows = store.rows("summary", ["flow"])
            every = as_groups(rows, rows).select("run", "flow").unique().height
            counts.append(every - own.join(other, on=by, how="semi", nulls_equal=True).height)
        return counts[0], counts[1]

    # --- pairs ------------------------------------------------------------------------------------------------

    def pairs(self, criteria: Criteria) -> Iterator[Pairs]:
        """All comparisons."""
        chosen = set(criteria.select(OF_STORES))
        timed: set[tuple[Any, ...]] = set()
        for found in (self._of_streams(), self._of_pages()):
            timed |= {(*one.cell.values(), one.flow) for one in found}
            yield from (
                replace(one, primary=one.primary or bool(criteria.metrics))
                for one in found
                if one.metric in chosen
            )
        for one in self._paired(*self._metrics, _OF_FLOWS):
            primary = bool(criteria.metrics) or (
                one.metric in _PRIMARY and (*one.cell.values(), one.flow) not in timed
            )
            if one.metric in chosen:
                yield replace(one, primary=primary)
        for one in (*self._of_runs(), *self._of_kinds(chosen)):
            if one.metric in chosen:
                yield replace(one, primary=bool(criteria.metrics))

    def _of_runs(self) -> Iterator[Pairs]:
        by = [*self.keys, "seed", "direction"]
        sides = (
            rows.group_by(by, maintain_order=True)
            .agg(pl.col(*_OF_RUNS).drop_nulls().first())
            .with_columns(flow=pl.lit(""))
            for rows in self._metrics
        )
        first, second = sides
        return self._paired(first, second, _OF_RUNS)

    def _of_kinds(self, chosen: set[str]) -> Iterator[Pairs]:
        for kind in KINDS:
            if not chosen & kind.metrics.keys():
                continue
            frames = [kind.frame(store) for store in (self.before, self.after)]
            if not all(frame.height for frame in frames):
                continue
            values = [pl.col(one).cast(pl.Float64).mean() for one in kind.metrics]
            of_run = ["run", "flow", "direction"]
            first, second = (frame.group_by(of_run, maintain_order=True).agg(values) for frame in frames)
            yield from self._paired(*self._in_common(first, second), tuple(kind.metrics))

    def _of_streams(self) -> list[Pairs]:
        transfers = (
            as_groups(completion_times(store.rows("streams")), store.rows("summary", ["flow"])).select(
                "run", "flow", begun_s=pl.col("start_s"), completion_s=pl.col("completion_s")
            )
            for store in (self.before, self.after)
        )
        names = {"mean_s": "completion_mean_s", "finished_ratio": "finished_ratio"}
        first, second = transfers
        quantiles = {"completion_p50_s": 0.5, "completion_p95_s": 0.95}
        return list(self._timed(first, second, names, quantiles, ""))

    def _of_pages(self) -> list[Pairs]:
        pages = [store.rows("pages") for store in (self.before, self.after)]
        if not all(rows.height for rows in pages):
            return []
        done = pl.col("finished") == 1
        found: list[Pairs] = []
        for metric, time in (("plt_s", pl.when(done).then("plt_s")), ("ttr_s", pl.col("ttr_s"))):
            loads = (
                as_groups(rows, store.rows("summary", ["flow"])).select(
                    "run", "flow", begun_s=pl.col("start_s"), completion_s=time
                )
                for rows, store in zip(pages, (self.before, self.after), strict=True)
            )
            names = {"mean_s": metric} | ({"finished_ratio": "loads_finished"} if metric == "plt_s" else {})
            first, second = loads
            found += self._timed(first, second, names, {}, "down")
        return found

    def _timed(
        self,
        first: pl.DataFrame,
        second: pl.DataFrame,
        names: Mapping[str, str],
        quantiles: dict[str, float],
        way: str,
    ) -> Iterator[Pairs]:
        """Restricted times of transfers: ``run, flow, begun_s, completion_s`` of each side."""
        if not first.height and not second.height:
            return
        ended = (
            rows.join(_planned_ends(store), on="run", how="left", maintain_order="left")
            for rows, store in zip((first, second), (self.before, self.after), strict=True)
        )
        of_flow, by = [*self.keys, "flow"], [*self.keys, "seed", "flow"]
        a, b = self._in_common(*ended)
        sides = [rows.with_columns(pl.lit(side).alias("side")) for side, rows in enumerate((a, b))]
        limits = restriction_times(pl.concat(sides).rename({"seed": "run"}), of_flow)
        found = []
        for rows, flows in zip((a, b), self._flows, strict=True):
            limited = rows.join(limits, on=of_flow, how="inner", nulls_equal=True, maintain_order="left")
            values = restricted(limited, by, quantiles).drop("tau_s")
            # A flow of a common run without such a transfer has finished none: it never got to begin one.
            every = flows.join(limits, on=of_flow, how="inner", nulls_equal=True, maintain_order="left")
            every = every.join(values, on=by, how="left", nulls_equal=True, maintain_order="left")
            found.append(
                every.with_columns(
                    pl.col("finished_ratio").fill_null(0.0),
                    pl.col("mean_s", *quantiles).fill_null(pl.col("tau_s")),
                    *(pl.col(f"{name}_reached").fill_null(value=False) for name in quantiles),
                    direction=pl.lit(way),
                ).rename(dict(names))
            )
        # Neither side began one at such a seed: there is nothing to compare.
        finished = names.get("finished_ratio", "finished_ratio")
        yield from self._paired(found[0], found[1], (*names.values(), *quantiles), finished)

    def _paired(
        self, a: pl.DataFrame, b: pl.DataFrame, metrics: Sequence[str], finished: str = ""
    ) -> Iterator[Pairs]:
        """Yield the pairs of each cell, flow, direction and metric.

        Args:
            a: a row a common run, flow and direction.
            b: the same of the other store.
            metrics: columns to compare.
            finished: of restricted times, the column with the share of transfers that finished.
        """
        group = [*self.keys, "flow", "direction"]
        joined = a.join(
            b, on=[*group, "seed"], how="full", coalesce=True, suffix="_after", nulls_equal=True,
            maintain_order="left_right",
        )  # fmt: skip
        for row in joined.group_by(group, maintain_order=True).agg(pl.all()).iter_rows(named=True):
            cell = {sweep_key(key): row[key] for key in self.keys}
            cut = bool(finished) and {*row[finished], *row[f"{finished}_after"]} - {1.0, None} != set()
            for metric in metrics:
                before, after = row[metric], row[f"{metric}_after"]
                if metric in ("finished_ratio", "loads_finished") and {*before, *after} <= {1.0, None}:
                    continue
                reached = [row.get(f"{metric}_reached{side}", [True]) for side in ("", "_after")]
                yield Pairs(
                    metric, before, after, cell, row["flow"], row["direction"],
                    primary=bool(finished) and metric in _PRIMARY,
                    draws=self._draws_of(tuple(row[key] for key in self.keys), before, after),
                    limit_s=row["tau_s"][0] if cut and metric not in _SHARES else None,
                    censored=(reached[0].count(False), reached[1].count(False)),
                )  # fmt: skip

    # --- chance -----------------------------------------------------------------------------------------------

    def _draws_of(
        self, cell: tuple[Any, ...], before: Sequence[float | None], after: Sequence[float | None]
    ) -> Draws:
        """Whether the runs of a cell draw; asked of the plan only where one seed, or equal ones, could decide."""
        if len(before) >= MIN_SEEDS and (len({*before}) > 1 or len({*after}) > 1):
            return Draws.SOMETHING
        if cell not in self._known_draws:
            self._known_draws[cell] = self._planned_draws(self._first_of[cell])
        return self._known_draws[cell]

    @cached_property
    def _known_draws(self) -> dict[tuple[Any, ...], Draws]:
        return {}

    @cached_property
    def _first_of(self) -> dict[tuple[Any, ...], tuple[str, str]]:
        found: dict[tuple[Any, ...], tuple[str, str]] = {}
        for row in self.common.iter_rows(named=True):
            found.setdefault(tuple(row[key] for key in self.keys), (row["run"], row["run_after"]))
        return found

    def first_specs(self) -> list[tuple[RunSpec | None, RunSpec | None]]:
        """Return what the first common run of each cell resolved to, before and after."""
        pairs = self._first_of.values()
        before, after = self._first_specs
        return [(before.get(first), after.get(second)) for first, second in pairs]

    @cached_property
    def _first_specs(self) -> list[dict[str, RunSpec]]:
        """Resolved first common runs of each cell, by run, of each store; a pack is read once."""
        sides = zip(*self._first_of.values(), strict=True)
        return [store.specs(runs) for store, runs in zip((self.before, self.after), sides, strict=True)]

    def _planned_draws(self, runs: tuple[str, str]) -> Draws:
        answers = set()
        for store, specs, run in zip((self.before, self.after), self._first_specs, runs, strict=True):
            spec = specs.get(run)
            if spec is None:
                return Draws.SOMETHING
            catalogue = self._catalogue
            quiet = deterministic_controllers(catalogue)
            supplied = controllers(spec) - by_name(catalogue).keys()
            if random_inputs(spec, quiet | supplied) - {RandomInput.SCHEDULER}:
                return Draws.SOMETHING
            unknown = random_inputs(spec, quiet) or any(part in store.engine for part in _REAL_TIME)
            answers.add(Draws.UNKNOWN if unknown else Draws.NOTHING)
        return Draws.UNKNOWN if Draws.UNKNOWN in answers else Draws.NOTHING

    @cached_property
    def _catalogue(self) -> Sequence[Mapping[str, Any]]:
        return self.catalogue() if self.catalogue is not None else ()


_SHARES = frozenset({"finished_ratio", "loads_finished"})


def _planned_ends(store: Store) -> pl.DataFrame:
    """Return when each run would have ended whatever its transfers did: ``run, end_s``.

    A browser's run ends with its last load, which is no limit of time: it has no row.
    """
    ends = store.ends
    return ends.clear() if _BROWSER in store.engine else ends
