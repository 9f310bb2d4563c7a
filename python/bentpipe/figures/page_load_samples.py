"""Page loads as samples: what is compared with what (arms), in which panels, and which values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import fmean

import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.figures.sweep_dimensions import Dimension, Grid, grid, of_kind
from bentpipe.metrics.intervals import ConfidenceInterval, median_ci
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.samples import Comparison, compare_times
from bentpipe.store.scan import GROUP

HTTP = {"1.1": "HTTP/1.1", "2": "HTTP/2", "3": "HTTP/3", "alt-svc": "Alt-Svc"}
"""What a scenario's ``http`` asks for, in words."""

TIMES = {name: METRICS[name] for name in ("plt_s", "ttr_s")}
"""Columns of the table ``pages`` that are compared."""

MOST_PAIRED = 3
"""With more arms than this, all are compared with the first one instead of all with all."""


@dataclass(frozen=True)
class Sample:
    """The values of one metric of one arm at one load of one cell, in the order of seeds."""

    cell: dict[str, str | None]
    load: int
    arm: str
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    loads: int
    """How many loads were begun; those without a value did not get there."""
    protocols: tuple[str, ...] = ()
    """What the main document came by, in the order of seeds without repetition."""

    @property
    def by_seed(self) -> dict[int, float]:
        """The mean of each seed's values: loads of one run share a path and are no independent values."""
        found: dict[int, list[float]] = {}
        for seed, value in zip(self.seeds, self.values, strict=True):
            found.setdefault(seed, []).append(value)
        return {seed: fmean(values) for seed, values in found.items()}

    @property
    def median(self) -> ConfidenceInterval:
        """The median of the values; it has an interval where they are independent, one of each seed."""
        found = median_ci(self.values)
        once = len(set(self.seeds)) == len(self.seeds)
        return found if once else ConfidenceInterval(found.estimate, None, None, found.n)


@dataclass
class PageLoads:
    """The page loads of a store."""

    material: FigureContext

    @cached_property
    def arm_dim(self) -> Dimension | None:
        """The dimension that is compared: the version of HTTP, else what colours stand for elsewhere."""
        dims = self.material.dims
        http = next((dim for dim in dims if any(key.endswith(".load.http") for key in dim.keys)), None)
        if http is not None or self.material.colour_dim is not self.page_dim:
            return http or self.material.colour_dim
        return of_kind([dim for dim in dims if dim is not self.page_dim], "congestion", "other")

    @cached_property
    def page_dim(self) -> Dimension | None:
        """The dimension that says which page is loaded, if several are."""
        dims = self.material.dims
        return next((dim for dim in dims if any(key.endswith(".load.page") for key in dim.keys)), None)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The table ``pages`` with the cell and ``arm``, in words."""
        pages = self.material.pages
        dim = self.arm_dim
        if dim is not None:
            http = dim.key.endswith(".load.http")
            words = [HTTP.get(value, value) if http else dim.label(value) for value in dim.values]
            arm = pl.col(dim.key).replace_strict(list(dim.values), words, return_dtype=pl.String)
        else:
            arm = pl.col("http").replace(list(HTTP), list(HTTP.values()))
        if self.many:
            who = pl.col(self.who)
            arm = pl.concat_str(who, arm, separator=", ") if dim is not None else who
        connect = pl.col("connect_end_s") - pl.col("connect_start_s")
        return pages.with_columns(arm.alias("arm"), connect_s=connect)

    @property
    def who(self) -> str:
        """The column that says whose loads they are: a group's, where flows are in groups."""
        return GROUP if GROUP in self.material.pages.columns else "flow"

    @property
    def many(self) -> bool:
        """Whether several flows, or groups, load pages."""
        return self.material.pages[self.who].n_unique() > 1

    @cached_property
    def arms(self) -> list[str]:
        """All arms, in the order of the sweep; versions of HTTP that are not swept by their age."""
        found = self.rows["arm"].unique(maintain_order=True).to_list()
        if self.arm_dim is None:
            ages = list(HTTP.values())
            return sorted(found, key=lambda arm: ages.index(arm) if arm in ages else len(ages))
        if self.many:
            return found
        order = {value: index for index, value in enumerate(self.arm_dim.values)}
        key = self.arm_dim.key
        places = dict(self.rows.select("arm", key).unique(maintain_order=True).iter_rows())
        return sorted(found, key=lambda arm: order.get(places[arm], len(order)))

    @property
    def arm_title(self) -> str:
        """What arms are."""
        if self.many:
            return "flow"
        dim = self.arm_dim
        return "asked for" if dim is None or dim.key.endswith(".load.http") else self.material.title(dim)

    @cached_property
    def loads(self) -> list[int]:
        """Numbers of the loads of a unit, from 1."""
        return sorted(self.rows["load"].unique().to_list())

    @cached_property
    def cell_dims(self) -> list[Dimension]:
        """The dimensions that are not compared."""
        return [dim for dim in self.material.dims if dim is not self.arm_dim]

    def panels(self, *, by_load: bool) -> Grid:
        """Pages are rows of panels; columns are loads (``by_load``, if there are several), or what else is swept."""
        dims = self.cell_dims
        row = self.page_dim or of_kind(dims, "delay")
        rest = [dim for dim in dims if dim is not row]
        column = of_kind(rest, "congestion", "loss", "rate", "other", "delay")
        if not by_load or len(self.loads) == 1:
            return grid(dims, column, row, self.material.fixed)
        load = Dimension("load", ("load",), tuple(str(load) for load in self.loads), "other")
        if row is None:
            row = column
        return grid([*dims, load], load, row, self.material.fixed)

    def samples(self, metric: str, rows: pl.DataFrame | None = None) -> list[Sample]:
        """All samples of ``metric``, or of some ``rows``: cells in the plan's order, then loads, then arms."""
        keys = [key for dim in self.cell_dims for key in dim.keys]
        order = {arm: index for index, arm in enumerate(self.arms)}
        found = []
        groups = (self.rows if rows is None else rows).partition_by(
            [*keys, "load", "arm"], maintain_order=True
        )
        for index, group in enumerate(groups):
            kept = group.sort("seed", maintain_order=True).drop_nulls(metric)
            first = group.row(0, named=True)
            sample = Sample(
                cell={key: first[key] for key in keys}, load=first["load"], arm=first["arm"],
                seeds=tuple(kept["seed"].to_list()), values=tuple(kept[metric].to_list()), loads=group.height,
                protocols=tuple(dict.fromkeys(group.sort("seed")["protocol"].drop_nulls().to_list())),
            )  # fmt: skip
            found.append((index, sample))
        cells = list(dict.fromkeys(tuple(sample.cell.values()) for _, sample in found))
        places = {cell: place for place, cell in enumerate(cells)}
        found.sort(
            key=lambda one: (places[tuple(one[1].cell.values())], one[1].load, order[one[1].arm], one[0])
        )
        return [sample for _, sample in found]


def pairs(samples: Sequence[Sample]) -> Iterator[tuple[Sample, Sample]]:
    """What is compared with what: the arms of one cell and load, both with values."""
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((*sample.cell.values(), sample.load), []).append(sample)
    for group in groups.values():
        arms = [sample for sample in group if sample.values]
        if len(arms) <= MOST_PAIRED:
            yield from combinations(arms, 2)
        else:
            yield from ((arms[0], other) for other in arms[1:])


def compare_samples(one: Sample, two: Sample) -> Comparison:
    """Which of two samples with values is the faster, paired by the seeds that both have, if they have any."""
    first, second = one.by_seed, two.by_seed
    both = [seed for seed in first if seed in second]
    pairs = [[values[seed] for seed in both] for values in (first, second)]
    shares = (len(one.values) / one.loads, len(two.values) / two.loads)
    values = pairs if both else [list(first.values()), list(second.values())]
    return compare_times(values[0], values[1], paired=bool(both), finished=shares)
