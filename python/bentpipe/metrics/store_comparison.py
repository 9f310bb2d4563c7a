"""Comparison of two stores: pairs of runs by cell of the sweep and seed, one value for each run.

Unpaired runs are counted and excluded. If one side of a pair lacks a flow's direction, it delivered nothing there and
its goodput is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.metrics.censoring import restricted_times, restriction_times
from bentpipe.metrics.compare import (
    MIN_SEEDS,
    OF_STORES,
    Comparison,
    Criteria,
    Draws,
    Pairs,
    compare_pairs,
)
from bentpipe.metrics.compute import MINOR_SHARE
from bentpipe.metrics.flow_kinds import KINDS
from bentpipe.metrics.groups import as_groups, group_metrics
from bentpipe.metrics.intervals import CONFIDENCE
from bentpipe.metrics.registry import METRICS, Scope, compared
from bentpipe.metrics.scenario_differences import scenario_differences
from bentpipe.metrics.transfers import BROWSER, planned_ends, transfers
from bentpipe.plan.flow.controllers import by_name, deterministic_controllers
from bentpipe.plan.randomness import RandomInput, controllers, random_inputs
from bentpipe.scenario.sweep_columns import sweep_key
from bentpipe.store.reader import Store, open_store
from bentpipe.store.settings import constant_keys

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.plan.spec.run_spec import RunSpec

__all__ = ["compare_stores", "shared_metrics"]

Catalogue = Callable[[], Sequence[Mapping[str, Any]]]

_OF_FLOWS = tuple(metric.name for metric in compared(Scope.FLOW) if metric.expression)
_OF_RUNS = tuple(
    metric.name
    for metric in compared(Scope.RUN, Scope.LINK)
    if metric.scope == Scope.RUN or metric.of_bottleneck
)
_PRIMARY = frozenset({metric.name for metric in METRICS.values() if metric.is_primary} | {"goodput_bit_s"})
"""Primary metrics. Goodput is not primary for a flow with completion or page load times."""
_ORDER = {name: place for place, name in enumerate(METRICS)}
_REAL_TIME = ("-emu", BROWSER)
"""Parts of the engine's version in a store of an emulation."""


def compare_stores(
    before: Store | Path | str,
    after: Store | Path | str,
    confidence: float = CONFIDENCE,
    criteria: Criteria | None = None,
    catalogue: Catalogue | None = None,
    *,
    is_unchanged_left_out: bool = False,
) -> Comparison:
    """Compare the metrics of two stores.

    Args:
        before: store before the change.
        after: store of the same scenario after the change.
        confidence: level of the intervals; the family-wise error of each family is 1 - ``confidence``.
        criteria: metrics of the comparison and the smallest changes with a verdict.
        catalogue: returns the engine's controllers, which determine whether a run without random losses is
            stochastic; called only if needed. Without it, all controllers count as user-supplied code.
        is_unchanged_left_out: compare only cells with a run that the change touches: another id, or other rows of
            ``flow_summary``. If the change touches none, all are compared.

    Raises:
        StoreError: a directory is not a store, or a newer bentpipe made it.
        ValueError: the stores have no run in common, or no run has any metric of ``criteria``.
    """
    criteria = criteria or Criteria()
    stores = _StorePair(open_store(before), open_store(after), catalogue, is_unchanged_left_out)
    if not stores.common.height:
        raise ValueError(f"{stores.names} have no run in common (same cell and seed)")
    pairs = sorted(stores.pairs(criteria), key=lambda item: (not item.primary, _ORDER[item.metric]))
    changes = compare_pairs(pairs, confidence, criteria)
    compared_names = {change.metric for change in changes}
    missing = [metric for metric in criteria.metrics if metric not in compared_names]
    if missing and not changes:
        raise ValueError(
            f"{stores.names} have no {' and no '.join(missing)}; they have {', '.join(stores.metrics)}"
        )
    only_before, only_after = stores.unpaired
    notes = [*stores.unchanged_notes()]
    if missing:
        notes.append(f"{stores.names} have no {' and no '.join(missing)}.")
    notes += [*scenario_differences(stores.before, stores.after, stores.first_specs)]
    notes.extend(
        f"{store.index.height} of {len(store.planned)} runs of {store.path.name} have finished."
        for store in (stores.before, stores.after)
        if store.index.height < len(store.planned)
    )
    return Comparison(changes, only_before, only_after, tuple(notes))


def shared_metrics(before: Store | Path | str, after: Store | Path | str) -> list[str]:
    """Return the metrics that a comparison of two stores has, in the order of :data:`METRICS`.

    Raises:
        StoreError: a directory is not a store, or a newer bentpipe made it.
    """
    return _StorePair(open_store(before), open_store(after)).metrics


@dataclass
class _StorePair:
    """Two stores and the runs that they have in common."""

    before: Store
    after: Store
    catalogue: Catalogue | None = None
    is_unchanged_left_out: bool = False

    @property
    def names(self) -> str:
        return f"{self.before.path.name} and {self.after.path.name}"

    @property
    def metrics(self) -> list[str]:
        """Metrics with a value, in the order of :data:`METRICS`."""
        return sorted(
            {change.metric for change in compare_pairs(self.pairs(Criteria()))}, key=_ORDER.__getitem__
        )

    @cached_property
    def keys(self) -> list[str]:
        """Columns of the sweep that pair runs: without those of one value in each store, if the two values differ."""
        names = sorted({*self.before.columns, *self.after.columns})
        before, after = constant_keys(self.before), constant_keys(self.after)
        differing = {key for key in before.keys() & after.keys() if before[key] != after[key]}
        return [name for name in names if sweep_key(name) not in differing]

    @cached_property
    def common(self) -> pl.DataFrame:
        """Compared runs: those of :attr:`paired`, perhaps without cells that the change does not touch."""
        if not self.is_unchanged_left_out:
            return self.paired
        touched = (pl.col("run") != pl.col("run_after")) | pl.col("run").is_in(self._differing_runs)
        changed = self.paired.filter(touched.any().over(self.keys or pl.lit(0)))
        return changed if changed.height else self.paired

    def unchanged_notes(self) -> Iterator[str]:
        """Yield a sentence on the cells that the change does not touch."""
        left_out = self.paired.height - self.common.height
        if left_out:
            cells = self.paired.join(self.common, on="run", how="anti").select(self.keys).n_unique()
            what = "one cell" if cells == 1 else f"{cells} cells"
            yield f"The change touches no run of {what}, which the comparison leaves out ({left_out} runs)."
        elif self.is_unchanged_left_out and self._is_unchanged:
            yield "The change touches no run: both builds make the same runs."

    @property
    def _is_unchanged(self) -> bool:
        return self.common["run"].equals(self.common["run_after"]) and not self._differing_runs

    @cached_property
    def _differing_runs(self) -> list[str]:
        """Runs of equal ids whose flows differ: an id covers neither the engine nor the code of a controller."""
        first, second = (
            store.rows("flow_summary").filter(pl.col("run").is_in(self.paired[name].implode()))
            for store, name in ((self.before, "run"), (self.after, "run_after"))
        )
        columns = [name for name in first.columns if name in second.columns]
        changed = (
            one.select(columns).join(other.select(columns), on=columns, how="anti", nulls_equal=True)["run"]
            for one, other in ((first, second), (second, first))
        )
        return pl.concat(changed).unique().sort().to_list()

    @cached_property
    def paired(self) -> pl.DataFrame:
        """Common runs in the order of the first store: ``KEYS..., seed, run, run_after``."""
        a, b = (self._index(store) for store in (self.before, self.after))
        by = [*self.keys, "seed"]
        return a.join(b, on=by, how="inner", suffix="_after", nulls_equal=True, maintain_order="left")

    def _index(self, store: Store) -> pl.DataFrame:
        missing = [pl.lit(None, pl.String).alias(key) for key in self.keys if key not in store.columns]
        return store.index.with_columns(missing).select(*self.keys, "seed", "run")

    @cached_property
    def _flows(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """All flows of the compared runs of both sides, with or without delivered bytes: ``KEYS..., seed, flow``."""
        return self._select_common(*self._flows_of_runs)

    @cached_property
    def _flows_of_runs(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        first, second = (
            as_groups(rows := store.rows("flow_summary", ["flow"]), rows)
            .select("run", "flow")
            .unique(maintain_order=True)
            for store in (self.before, self.after)
        )
        return first, second

    def _select_common(
        self, first: pl.DataFrame, second: pl.DataFrame, common: pl.DataFrame | None = None
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows of the common runs of both sides, with ``KEYS..., seed`` in place of ``run``."""
        common = self.common if common is None else common
        places = (
            common.select(*self.keys, "seed", "run"),
            common.select(*self.keys, "seed", run="run_after"),
        )
        a, b = (
            place.join(rows, on="run", how="inner", maintain_order="left_right").drop("run")
            for place, rows in zip(places, (first, second), strict=True)
        )
        return a, b

    @cached_property
    def _metrics(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Metrics of flows and runs of both sides, with equal directions of every flow of a common run."""
        columns = ["run", "flow", "direction", "received_bytes", *_OF_FLOWS, *_OF_RUNS]
        return self._add_missing_directions(
            *self._select_common(
                *(group_metrics(store).select(columns) for store in (self.before, self.after))
            )
        )

    def _add_missing_directions(self, a: pl.DataFrame, b: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Add a goodput of 0 for each flow direction that has a row only on the other side.

        The bytes of both sides together decide whether a direction counts: a side that delivers nothing carries only
        the request.
        """
        of_flow = [*self.keys, "flow"]
        bytes_ = [
            rows.select(*of_flow, "direction", pl.col("received_bytes").cast(pl.Float64)) for rows in (a, b)
        ]
        carried = pl.concat(bytes_).group_by([*of_flow, "direction"], maintain_order=True).agg(pl.all().sum())
        total = pl.col("received_bytes").sum().over(of_flow)
        directions = carried.filter((total == 0) | (pl.col("received_bytes") >= MINOR_SHARE * total)).drop(
            "received_bytes"
        )
        sides = []
        for rows, flows in zip((a, b), self._flows, strict=True):
            every = flows.join(
                directions, on=of_flow, how="inner", nulls_equal=True, maintain_order="left_right"
            )
            by = [*self.keys, "seed", "flow", "direction"]
            complete = every.join(rows, on=by, how="left", nulls_equal=True, maintain_order="left")
            sides.append(complete.with_columns(pl.col("goodput_bit_s").fill_null(0.0)))
        return sides[0], sides[1]

    @property
    def unpaired(self) -> tuple[int, int]:
        """Numbers of unpaired flows of the runs of each side."""
        sides = self._select_common(*self._flows_of_runs, self.paired)
        counts = []
        for every, flows, other in zip(self._flows_of_runs, sides, reversed(sides), strict=True):
            by = [*self.keys, "seed", "flow"]
            counts.append(every.height - flows.join(other, on=by, how="semi", nulls_equal=True).height)
        return counts[0], counts[1]

    # --- pairs ------------------------------------------------------------------------------------------------

    def pairs(self, criteria: Criteria) -> Iterator[Pairs]:
        """Yield the pairs of all comparisons."""
        metrics = set(criteria.select(OF_STORES))
        timed: set[tuple[Any, ...]] = set()
        for items in (self._pair_streams(), self._pair_pages()):
            timed |= {(*item.cell.values(), item.flow) for item in items}
            yield from (
                replace(item, primary=item.primary or bool(criteria.metrics))
                for item in items
                if item.metric in metrics
            )
        for item in self._pair(*self._metrics, _OF_FLOWS):
            primary = bool(criteria.metrics) or (
                item.metric in _PRIMARY and (*item.cell.values(), item.flow) not in timed
            )
            if item.metric in metrics:
                yield replace(item, primary=primary)
        for item in (*self._pair_runs(), *self._pair_kinds(metrics)):
            if item.metric in metrics:
                yield replace(item, primary=bool(criteria.metrics))

    def _pair_runs(self) -> Iterator[Pairs]:
        by = [*self.keys, "seed", "direction"]
        sides = (
            rows.group_by(by, maintain_order=True)
            .agg(pl.col(*_OF_RUNS).drop_nulls().first())
            .with_columns(flow=pl.lit(""))
            for rows in self._metrics
        )
        first, second = sides
        return self._pair(first, second, _OF_RUNS)

    def _pair_kinds(self, metrics: set[str]) -> Iterator[Pairs]:
        for kind in KINDS:
            names = tuple(metric.name for metric in compared(kind.scope))
            if not metrics & {*names}:
                continue
            frames = [kind.frame(store) for store in (self.before, self.after)]
            if not all(frame.height for frame in frames):
                continue
            values = [pl.col(name).cast(pl.Float64).mean() for name in names]
            of_run = ["run", "flow", "direction"]
            first, second = (frame.group_by(of_run, maintain_order=True).agg(values) for frame in frames)
            yield from self._pair(*self._select_common(first, second), names)

    def _pair_streams(self) -> list[Pairs]:
        names = {"mean_s": "completion_mean_s", "finished_ratio": "finished_ratio"}
        first, second = map(transfers, (self.before, self.after))
        quantiles = {"completion_p50_s": 0.5, "completion_p95_s": 0.95}
        return list(self._pair_times(first, second, names, quantiles, ""))

    def _pair_pages(self) -> list[Pairs]:
        pages = [store.rows("pages") for store in (self.before, self.after)]
        if not all(rows.height for rows in pages):
            return []
        finished = pl.col("completed") == 1
        pairs: list[Pairs] = []
        for metric, time in (("plt_s", pl.when(finished).then("plt_s")), ("ttr_s", pl.col("ttr_s"))):
            loads = (
                as_groups(rows, store.rows("flow_summary", ["flow"])).select(
                    "run", "flow", begun_s=pl.col("start_s"), completion_s=time
                )
                for rows, store in zip(pages, (self.before, self.after), strict=True)
            )
            names = {"mean_s": metric} | ({"finished_ratio": "loads_finished"} if metric == "plt_s" else {})
            first, second = loads
            pairs += self._pair_times(first, second, names, {}, "down")
        return pairs

    def _pair_times(
        self,
        first: pl.DataFrame,
        second: pl.DataFrame,
        names: Mapping[str, str],
        quantiles: dict[str, float],
        direction: str,
    ) -> Iterator[Pairs]:
        """Yield the pairs of restricted times of transfers.

        Args:
            first: transfers of the first store, ``run, flow, begun_s, completion_s``.
            second: transfers of the second store.
            names: column of :func:`bentpipe.metrics.censoring.restricted_times` to metric.
            quantiles: metric and probability of each quantile.
            direction: direction of the pairs.
        """
        if not first.height and not second.height:
            return
        with_ends = (
            rows.join(planned_ends(store), on="run", how="left", maintain_order="left")
            for rows, store in zip((first, second), (self.before, self.after), strict=True)
        )
        of_flow, by = [*self.keys, "flow"], [*self.keys, "seed", "flow"]
        a, b = self._select_common(*with_ends)
        sides = [rows.with_columns(pl.lit(side).alias("side")) for side, rows in enumerate((a, b))]
        limits = restriction_times(pl.concat(sides).rename({"seed": "run"}), of_flow)
        values_of = []
        for rows, flows in zip((a, b), self._flows, strict=True):
            limited = rows.join(limits, on=of_flow, how="inner", nulls_equal=True, maintain_order="left")
            values = restricted_times(limited, by, quantiles).drop("tau_s")
            # A flow of a common run without such a transfer began none, so it finished none.
            every = flows.join(limits, on=of_flow, how="inner", nulls_equal=True, maintain_order="left")
            every = every.join(values, on=by, how="left", nulls_equal=True, maintain_order="left")
            values_of.append(
                every.with_columns(
                    pl.col("finished_ratio").fill_null(0.0),
                    pl.col("mean_s", *quantiles).fill_null(pl.col("tau_s")),
                    *(pl.col(f"{name}_reached").fill_null(value=False) for name in quantiles),
                    direction=pl.lit(direction),
                ).rename(dict(names))
            )
        # Seeds without a transfer on either side have no pair.
        finished = names.get("finished_ratio", "finished_ratio")
        yield from self._pair(values_of[0], values_of[1], (*names.values(), *quantiles), finished)

    def _pair(
        self, a: pl.DataFrame, b: pl.DataFrame, metrics: Sequence[str], finished: str = ""
    ) -> Iterator[Pairs]:
        """Yield the pairs of each cell, flow, direction and metric.

        Args:
            a: one row for each common run, flow and direction of the first store.
            b: rows of the second store.
            metrics: columns to compare.
            finished: column with the share of finished transfers; only for restricted times.
        """
        group = [*self.keys, "flow", "direction"]
        joined = a.join(
            b, on=[*group, "seed"], how="full", coalesce=True, suffix="_after", nulls_equal=True,
            maintain_order="left_right",
        )  # fmt: skip
        for row in joined.group_by(group, maintain_order=True).agg(pl.all()).iter_rows(named=True):
            cell = {sweep_key(key): row[key] for key in self.keys}
            censored = bool(finished) and {*row[finished], *row[f"{finished}_after"]} - {1.0, None} != set()
            for metric in metrics:
                before, after = row[metric], row[f"{metric}_after"]
                if metric in ("finished_ratio", "loads_finished") and {*before, *after} <= {1.0, None}:
                    continue
                reached = [row.get(f"{metric}_reached{side}", [True]) for side in ("", "_after")]
                yield Pairs(
                    metric, before, after, cell, row["flow"], row["direction"],
                    primary=bool(finished) and metric in _PRIMARY,
                    draws=self._draws_of(tuple(row[key] for key in self.keys), before, after),
                    limit_s=row["tau_s"][0] if censored and metric not in _SHARES else None,
                    censored=(reached[0].count(False), reached[1].count(False)),
                )  # fmt: skip

    # --- randomness -------------------------------------------------------------------------------------------

    def _draws_of(
        self, cell: tuple[Any, ...], before: Sequence[float | None], after: Sequence[float | None]
    ) -> Draws:
        """Return whether the runs of a cell are stochastic; read the plan only if few seeds or equal values decide."""
        if len(before) >= MIN_SEEDS and (len({*before}) > 1 or len({*after}) > 1):
            return Draws.SOMETHING
        if cell not in self._known_draws:
            self._known_draws[cell] = self._planned_draws(self._first_runs[cell])
        return self._known_draws[cell]

    @cached_property
    def _known_draws(self) -> dict[tuple[Any, ...], Draws]:
        return {}

    @cached_property
    def _first_runs(self) -> dict[tuple[Any, ...], tuple[str, str]]:
        runs: dict[tuple[Any, ...], tuple[str, str]] = {}
        for row in self.common.iter_rows(named=True):
            runs.setdefault(tuple(row[key] for key in self.keys), (row["run"], row["run_after"]))
        return runs

    def first_specs(self) -> list[tuple[RunSpec | None, RunSpec | None]]:
        """Return the RunSpec of the first common run of each cell, before and after."""
        pairs = self._first_runs.values()
        before, after = self._first_specs
        return [(before.get(first), after.get(second)) for first, second in pairs]

    @cached_property
    def _first_specs(self) -> list[dict[str, RunSpec]]:
        """RunSpec of the first common run of each cell, by run, of each store; each pack is read once."""
        sides = zip(*self._first_runs.values(), strict=True)
        return [store.specs(runs) for store, runs in zip((self.before, self.after), sides, strict=True)]

    def _planned_draws(self, runs: tuple[str, str]) -> Draws:
        results = set()
        for store, specs, run in zip((self.before, self.after), self._first_specs, runs, strict=True):
            spec = specs.get(run)
            if spec is None:
                return Draws.SOMETHING
            catalogue = self._catalogue
            deterministic = deterministic_controllers(catalogue)
            user_supplied = controllers(spec) - by_name(catalogue).keys()
            if random_inputs(spec, deterministic | user_supplied) - {RandomInput.SCHEDULER, RandomInput.QUIC}:
                return Draws.SOMETHING
            unknown = random_inputs(spec, deterministic) or any(part in store.engine for part in _REAL_TIME)
            results.add(Draws.UNKNOWN if unknown else Draws.NOTHING)
        return Draws.UNKNOWN if Draws.UNKNOWN in results else Draws.NOTHING

    @cached_property
    def _catalogue(self) -> Sequence[Mapping[str, Any]]:
        return self.catalogue() if self.catalogue is not None else ()


_SHARES = frozenset({"finished_ratio", "loads_finished"})
