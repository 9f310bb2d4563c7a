"""Samples of page load times: variants, panels and values."""

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
"""Labels of the values of a scenario's ``http``."""

TIMES = {name: METRICS[name] for name in ("plt_s", "ttr_s")}
"""Compared columns of the table ``pages``."""

MAX_PAIRED = 3
"""Largest number of variants with all pairs compared; of more, all are compared with the first."""


@dataclass(frozen=True)
class Sample:
    """Values of one metric of one variant at one load of one cell, in the order of seeds."""

    cell: dict[str, str | None]
    load: int
    variant: str
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    loads: int
    """Number of started loads, with or without a value."""
    protocols: tuple[str, ...] = ()
    """Distinct negotiated protocols of the main document, in the order of seeds."""

    @property
    def by_seed(self) -> dict[int, float]:
        """Mean of each seed's values: loads of one run share a path and are not independent."""
        found: dict[int, list[float]] = {}
        for seed, value in zip(self.seeds, self.values, strict=True):
            found.setdefault(seed, []).append(value)
        return {seed: fmean(values) for seed, values in found.items()}

    @property
    def median(self) -> ConfidenceInterval:
        """Median of the values; its interval is known only if the values are independent, one for each seed."""
        found = median_ci(self.values)
        once = len(set(self.seeds)) == len(self.seeds)
        return found if once else ConfidenceInterval(found.estimate, None, None, found.n)


@dataclass
class PageLoads:
    """Page loads of a store."""

    context: FigureContext

    @cached_property
    def variant_dim(self) -> Dimension | None:
        """Dimension of the variants: the version of HTTP, else that of the colours or another set of alternatives.

        An amount, such as a loss rate or a number of users, is an axis and has no variants.
        """
        dims = self.context.dims
        http = next((dim for dim in dims if any(key.endswith(".load.http") for key in dim.keys)), None)
        others = [dim for dim in dims if dim is not self.page_dim and not dim.is_quantity]
        colours = self.context.colour_dim
        return http or (colours if colours in others else of_kind(others, "congestion", "other"))

    @cached_property
    def page_dim(self) -> Dimension | None:
        """Dimension of the pages, if the sweep has several."""
        dims = self.context.dims
        return next((dim for dim in dims if any(key.endswith(".load.page") for key in dim.keys)), None)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """Table ``pages`` with the cell and the label ``variant``."""
        pages = self.context.pages
        dim = self.variant_dim
        if dim is not None:
            http = dim.key.endswith(".load.http")
            labels = [HTTP.get(value, value) if http else dim.label(value) for value in dim.values]
            variant = pl.col(dim.key).replace_strict(list(dim.values), labels, return_dtype=pl.String)
        else:
            variant = pl.col("http").replace(list(HTTP), list(HTTP.values()))
        if self.has_several_flows:
            flow = pl.col(self.flow_column)
            variant = pl.concat_str(flow, variant, separator=", ") if dim is not None else flow
        connect = pl.col("connect_end_s") - pl.col("connect_start_s")
        return pages.with_columns(variant.alias("variant"), connect_s=connect)

    @property
    def flow_column(self) -> str:
        """Column of the flow, or of the group if the scenario has groups."""
        return GROUP if GROUP in self.context.pages.columns else "flow"

    @property
    def has_several_flows(self) -> bool:
        """Whether several flows or groups load pages."""
        return self.context.pages[self.flow_column].n_unique() > 1

    @cached_property
    def variants(self) -> list[str]:
        """Labels of all variants in the order of the sweep; versions of HTTP outside the sweep in ascending order."""
        found = self.rows["variant"].unique(maintain_order=True).to_list()
        if self.variant_dim is None:
            ages = list(HTTP.values())
            return sorted(found, key=lambda variant: ages.index(variant) if variant in ages else len(ages))
        if self.has_several_flows:
            return found
        order = {value: index for index, value in enumerate(self.variant_dim.values)}
        key = self.variant_dim.key
        places = dict(self.rows.select("variant", key).unique(maintain_order=True).iter_rows())
        return sorted(found, key=lambda variant: order.get(places[variant], len(order)))

    @property
    def variant_title(self) -> str:
        """Title of the variants."""
        if self.has_several_flows:
            return "flow"
        dim = self.variant_dim
        return "asked for" if dim is None or dim.key.endswith(".load.http") else self.context.title(dim)

    @cached_property
    def loads(self) -> list[int]:
        """Numbers of the loads of a session, from 1."""
        return sorted(self.rows["load"].unique().to_list())

    @cached_property
    def cell_dims(self) -> list[Dimension]:
        """Dimensions other than that of the variants."""
        return [dim for dim in self.context.dims if dim is not self.variant_dim]

    def panels(self, *, by_load: bool) -> Grid:
        """Return panels with pages as rows, and loads (``by_load``, if several) or another dimension as columns."""
        dims = self.cell_dims
        row = self.page_dim or of_kind(dims, "delay")
        rest = [dim for dim in dims if dim is not row]
        column = of_kind(rest, "congestion", "loss", "rate", "other", "delay")
        if not by_load or len(self.loads) == 1:
            return grid(dims, column, row, self.context.fixed)
        load = Dimension("load", ("load",), tuple(str(load) for load in self.loads), "other")
        if row is None:
            row = column
        return grid([*dims, load], load, row, self.context.fixed)

    def samples(self, metric: str, rows: pl.DataFrame | None = None) -> list[Sample]:
        """Return all samples of ``metric``, or those of ``rows``: by cell in the plan's order, load and variant."""
        keys = [key for dim in self.cell_dims for key in dim.keys]
        order = {variant: index for index, variant in enumerate(self.variants)}
        found = []
        groups = (self.rows if rows is None else rows).partition_by(
            [*keys, "load", "variant"], maintain_order=True
        )
        for index, group in enumerate(groups):
            finished = group.sort("seed", maintain_order=True).drop_nulls(metric)
            first = group.row(0, named=True)
            sample = Sample(
                cell={key: first[key] for key in keys}, load=first["load"], variant=first["variant"],
                seeds=tuple(finished["seed"].to_list()), values=tuple(finished[metric].to_list()), loads=group.height,
                protocols=tuple(dict.fromkeys(group.sort("seed")["protocol"].drop_nulls().to_list())),
            )  # fmt: skip
            found.append((index, sample))
        cells = list(dict.fromkeys(tuple(sample.cell.values()) for _, sample in found))
        places = {cell: place for place, cell in enumerate(cells)}
        found.sort(
            key=lambda one: (places[tuple(one[1].cell.values())], one[1].load, order[one[1].variant], one[0])
        )
        return [sample for _, sample in found]


def pairs(samples: Sequence[Sample]) -> Iterator[tuple[Sample, Sample]]:
    """Yield the pairs of variants to compare, of one cell and load, both with values."""
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((*sample.cell.values(), sample.load), []).append(sample)
    for group in groups.values():
        variants = [sample for sample in group if sample.values]
        if len(variants) <= MAX_PAIRED:
            yield from combinations(variants, 2)
        else:
            yield from ((variants[0], other) for other in variants[1:])


def compare_samples(one: Sample, two: Sample) -> Comparison:
    """Compare two samples with values, paired by their common seeds if they have any."""
    first, second = one.by_seed, two.by_seed
    both = [seed for seed in first if seed in second]
    pairs = [[values[seed] for seed in both] for values in (first, second)]
    shares = (len(one.values) / one.loads, len(two.values) / two.loads)
    values = pairs if both else [list(first.values()), list(second.values())]
    return compare_times(values[0], values[1], paired=bool(both), finished=shares)
