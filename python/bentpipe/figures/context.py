"""Inputs of the figures of a store, computed once: metrics, cells, dimensions of the sweep."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl

from bentpipe.figures.sweep_dimensions import Dimension, Grid, dimensions, grid, of_kind
from bentpipe.metrics import compute as metrics
from bentpipe.metrics import groups
from bentpipe.metrics import users as sharing
from bentpipe.metrics.call_quality import rate_calls
from bentpipe.metrics.transfers import transfers
from bentpipe.store.reader import Store
from bentpipe.store.scan import GROUP

MAX_COLOURS = 8


@dataclass
class FigureContext:
    """Store with the settings of its figures, and the metrics and panels that follow from them."""

    store: Store
    time_range: tuple[float, float | None] = (0.0, None)
    """Start and end of figures over time, seconds from the start of the run; ``None`` is the end of the run."""
    fixed: dict[str, str] = field(default_factory=dict)
    """Values of dimensions in figures over time, by key; other dimensions without panels have their first value."""
    seed: int | None = None
    """Seed of the runs in figures over time; None: the first."""

    @cached_property
    def flow_summary(self) -> pl.DataFrame:
        """Table ``flow_summary``: one row per run, flow and side."""
        return self.store.rows("flow_summary")

    @cached_property
    def flow_metrics(self) -> pl.DataFrame:
        """Result of :func:`bentpipe.metrics.compute.run_metrics`: one row per run, flow and direction."""
        return metrics.run_metrics(self.store)

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """Result of :func:`bentpipe.metrics.groups.group_metrics`: one row per run, flow or group, and direction."""
        return groups.group_metrics(self.store, self.flow_metrics)

    @cached_property
    def transfers(self) -> pl.DataFrame:
        """Result of :func:`bentpipe.metrics.transfers.transfers`: one row per stream of a given size."""
        return transfers(self.store)

    @property
    def grouped(self) -> bool:
        """Whether the scenario has groups; figures and tables then show a group as a flow."""
        return groups.grouped(self.flow_summary)

    @cached_property
    def cells(self) -> pl.DataFrame:
        """Result of :func:`bentpipe.metrics.compute.aggregate_seeds` for :attr:`metrics`."""
        return metrics.aggregate_seeds(self.metrics, self.store.columns)

    @cached_property
    def dims(self) -> tuple[Dimension, ...]:
        """Dimensions of the sweep."""
        return dimensions(self.store.index, self.store.columns)

    @cached_property
    def directions(self) -> pl.DataFrame:
        """Result of :func:`bentpipe.metrics.compute.flow_directions` for the store's flows or groups."""
        summary = groups.as_groups(self.flow_summary, self.flow_summary)
        return metrics.flow_directions(summary.select("flow", "side", "written_bytes"))

    @cached_property
    def links(self) -> pl.DataFrame:
        """Bottleneck of every run and direction (:func:`bentpipe.metrics.compute.bottlenecks`).

        The access of a group has the name of the group, as in the time series.
        """
        bottlenecks = metrics.bottlenecks(metrics.link_metrics(self.store))
        return groups.accesses_as_groups(bottlenecks, self.flow_summary)

    @cached_property
    def pages(self) -> pl.DataFrame:
        """Table ``pages`` with the cell and seed of every run; no rows without page loads."""
        rows = self.store.rows("pages")
        if self.grouped and rows.width > 1:
            members = self.flow_summary.select("run", "flow", GROUP).unique(maintain_order=True)
            rows = rows.join(members, on=["run", "flow"], how="left", maintain_order="left")
        return (
            rows.join(self.store.index, on="run", how="inner", maintain_order="left")
            if rows.width > 1
            else rows.clear()
        )

    @cached_property
    def calls(self) -> pl.DataFrame:
        """Ratings of calls with their own codec and adaptive play-out; no rows without calls."""
        return rate_calls(self.store)

    @cached_property
    def users(self) -> pl.DataFrame:
        """Result of :func:`bentpipe.metrics.users.user_metrics`: one row per run, user and direction.

        The frame is empty if no users share a radio link or a scheduler.
        """
        return (
            sharing.user_metrics(self.store, self.flow_metrics)
            if sharing.has_shared_link(self.store)
            else pl.DataFrame()
        )

    @property
    def shared(self) -> bool:
        """Whether the store has more than one flow or direction."""
        return self.directions.height > 1

    @cached_property
    def colour_dim(self) -> Dimension | None:
        """Dimension of the colours: in runs of one flow the controller, else another swept alternative.

        It is ``None`` if runs have several flows: then colours are flows.
        """
        if self.shared:
            return None
        alternatives = [dim for dim in self.dims if not dim.is_quantity]
        dim = of_kind(alternatives, "congestion", "other") or of_kind(self.dims, "other")
        if dim is None and len(self.dims) == 1:
            dim = self.dims[0]
        return dim if dim is not None and len(dim.values) <= MAX_COLOURS else None

    @property
    def panel_dims(self) -> tuple[Dimension, ...]:
        """Dimensions other than that of the colours."""
        return tuple(dim for dim in self.dims if dim is not self.colour_dim)

    @cached_property
    def time_grid(self) -> Grid:
        """Panels of the figures over time."""
        dims = self.panel_dims
        row = of_kind(dims, "delay")
        rest = [dim for dim in dims if dim is not row]
        column = of_kind(rest, "congestion", "loss", "rate", "other")
        if column is None:
            row, column = None, row
        panels = grid(dims, column, row, self.fixed)
        colours = self.colour_dim
        if colours is None or colours.key not in self.fixed:
            return panels
        return replace(panels, inside=((colours, (self.fixed[colours.key],)),))

    @cached_property
    def time_runs(self) -> pl.DataFrame:
        """Runs in figures over time, one of each cell: ``run, column, row``, the seed and the cell."""
        runs = self.time_grid.select(self.store.index)
        cell = list(self.store.columns)
        if self.seed is not None:
            runs = runs.filter(pl.col("seed") == self.seed)
        return (
            runs.sort("seed", maintain_order=True).unique(cell, keep="first", maintain_order=True)
            if cell
            else runs.head(1)
        )

    @cached_property
    def run_numbers(self) -> dict[str, str]:
        """Numbers of the runs in figures over time: positions in the store's index.

        They are text, so that rounding of numbers leaves them unchanged.
        """
        places = self.store.index.select("run").with_row_index("place")
        shown = places.join(self.time_runs.select("run"), on="run", how="semi", maintain_order="left")
        return {run: str(place) for place, run in shown.iter_rows()}

    def with_run_numbers(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Replace each run of ``frame`` by its number (:attr:`run_numbers`)."""
        numbers = self.run_numbers
        number = pl.col("run").replace_strict(list(numbers), list(numbers.values()), return_dtype=pl.String)
        return frame.with_columns(run=number)

    @property
    def time_note(self) -> str:
        """Seed and cells in figures over time, as sentences."""
        return " ".join(filter(None, [self.seed_note, self.time_grid.note]))

    @property
    def seed_note(self) -> str:
        """Seed in figures over time, as a sentence; empty with a single seed."""
        seeds = self.store.index["seed"].n_unique()
        return (
            f"The figure shows seed {self.time_runs['seed'].to_list()[0]} of {seeds} seeds."
            if seeds > 1
            else ""
        )

    def label(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add ``series``, the label of the colour, to ``frame`` with the cell's columns, ``flow`` and ``direction``."""
        dim = self.colour_dim
        if dim is not None:
            labels = [dim.label(value) for value in dim.values]
            label = pl.col(dim.key).replace_strict(list(dim.values), labels, return_dtype=pl.String)
        else:
            names = self.flow_names
            label = pl.concat_str("flow", "direction", separator=" ").replace_strict(
                list(names), list(names.values()), return_dtype=pl.String
            )
        return frame.with_columns(label.alias("series"))

    @cached_property
    def flow_names(self) -> dict[str, str]:
        """Names of flows in legends, by flow and direction.

        A name has the controller if it is always the same, and the direction if the flow has two.
        """
        both = self.directions["flow"].is_duplicated().to_list()
        names = {}
        for (flow, direction, *_), two in zip(self.directions.rows(), both, strict=True):
            controllers = self.metrics.filter(pl.col("flow") == flow)["congestion"].unique().to_list()
            name = f"{flow} {direction}" if two else flow
            if len(controllers) == 1 and controllers[0] and controllers[0] != flow:
                name += f" ({controllers[0]})"
            names[f"{flow} {direction}"] = name
        return names

    @property
    def flow_names_short(self) -> dict[str, str]:
        """Names of flows beside their controller, by flow and direction."""
        both = self.directions["flow"].is_duplicated().to_list()
        return {
            f"{flow} {direction}": f"{flow} {direction}" if two else flow
            for (flow, direction, *_), two in zip(self.directions.rows(), both, strict=True)
        }

    @cached_property
    def series(self) -> list[str]:
        """Labels of all series, in the order of their colours."""
        dim = self.colour_dim
        return (
            [dim.label(value) for value in dim.values] if dim is not None else list(self.flow_names.values())
        )

    @cached_property
    def colours(self) -> dict[str, str]:
        """Colour of each series in every figure, by all labels that the series has."""
        # The library of figures takes as long to import as the rest of ``bentpipe show``.
        from bentpipe.figures.style import palette

        colours = dict(zip(*palette(self.series), strict=True))
        dim = self.colour_dim
        if dim is not None:
            short = {dim.label(value): dim.value_label(value) for value in dim.values}
        else:
            short = {name: self.flow_names_short[flow] for flow, name in self.flow_names.items()}
            pairs = {name: flow.replace(" ", ", ") for flow, name in self.flow_names.items()}
            colours = {pairs[name]: shade for name, shade in colours.items()} | colours
        return {short.get(name, name): shade for name, shade in colours.items()} | colours

    def title(self, dim: Dimension) -> str:
        """Return the title of a dimension; with several flows, that of a controller names its flow."""
        parts = dim.key.split(".")
        if not dim.name and self.shared and parts[0] == "flow" and len(parts) > 2:
            return f"{parts[1]}'s controller"
        return dim.title

    @property
    def series_title(self) -> str | None:
        """Title of the legend of colours; None with a single flow and no dimension."""
        return (
            self.title(self.colour_dim) if self.colour_dim is not None else ("flow" if self.shared else None)
        )
