"""What the figures of one store have in common, computed once: metrics, cells, the sweep's dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl

from bentpipe.figures.sweep_dimensions import Dimension, Grid, dimensions, grid, of_kind
from bentpipe.metrics import compute as metrics
from bentpipe.metrics import groups
from bentpipe.metrics import users as sharing
from bentpipe.metrics.call_quality import rate_calls
from bentpipe.store.reader import Store
from bentpipe.store.scan import GROUP

MOST_COLOURS = 8


@dataclass
class FigureContext:
    """A store and a time range (seconds from the run's start; ``None`` is its end), and what follows from them.

    ``fixed`` says at which value figures over time hold a dimension, by its key; those that they have no panels for and
    that it does not name are at their first.
    """

    store: Store
    time_range: tuple[float, float | None] = (0.0, None)
    fixed: dict[str, str] = field(default_factory=dict)
    seed: int | None = None
    """Whose runs figures over time show, in the place of the first."""

    @cached_property
    def summary(self) -> pl.DataFrame:
        """The table ``summary``: one row per run, flow and side."""
        return self.store.rows("summary")

    @cached_property
    def each(self) -> pl.DataFrame:
        """:func:`bentpipe.metrics.compute.run_metrics`: one row per run, flow and direction."""
        return metrics.run_metrics(self.store)

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """:func:`bentpipe.metrics.groups.group_metrics`: the same, a group in the place of its flows."""
        return groups.group_metrics(self.store, self.each)

    @property
    def grouped(self) -> bool:
        """Whether flows are in groups; these are then what figures and tables call flows."""
        return groups.grouped(self.summary)

    @cached_property
    def cells(self) -> pl.DataFrame:
        """:func:`bentpipe.metrics.compute.aggregate_seeds` of :attr:`metrics`."""
        return metrics.aggregate_seeds(self.metrics, self.store.columns)

    @cached_property
    def dims(self) -> tuple[Dimension, ...]:
        """What the sweep varies."""
        return dimensions(self.store.index, self.store.columns)

    @cached_property
    def ways(self) -> pl.DataFrame:
        """:func:`bentpipe.metrics.compute.flow_directions` of the store's flows, or groups."""
        summary = groups.as_groups(self.summary, self.summary)
        return metrics.flow_directions(summary.select("flow", "side", "written_bytes"))

    @cached_property
    def links(self) -> pl.DataFrame:
        """The busiest link of every run and direction (:func:`bentpipe.metrics.compute.bottlenecks`); an access of a
        group goes by its group's name, as in the time series."""
        busiest = metrics.bottlenecks(metrics.link_metrics(self.store))
        return groups.accesses_as_groups(busiest, self.summary)

    @cached_property
    def pages(self) -> pl.DataFrame:
        """The table ``pages`` with the cell and seed of every run; no rows where nothing loads pages."""
        rows = self.store.rows("pages")
        if self.grouped and rows.width > 1:
            members = self.summary.select("run", "flow", GROUP).unique(maintain_order=True)
            rows = rows.join(members, on=["run", "flow"], how="left", maintain_order="left")
        return (
            rows.join(self.store.index, on="run", how="inner", maintain_order="left")
            if rows.width > 1
            else rows.clear()
        )

    @cached_property
    def calls(self) -> pl.DataFrame:
        """Calls as they are judged with their own codec and adaptive play-out; no rows where there are none."""
        return rate_calls(self.store)

    @cached_property
    def users(self) -> pl.DataFrame:
        """:func:`bentpipe.metrics.users.user_metrics`: one row per run, user and direction; empty where nobody shares a
        radio link or a scheduler."""
        return (
            sharing.user_metrics(self.store, self.each)
            if sharing.has_shared_link(self.store)
            else pl.DataFrame()
        )

    @property
    def shared(self) -> bool:
        """Whether some run has more than one flow or direction."""
        return self.ways.height > 1

    @cached_property
    def colour_dim(self) -> Dimension | None:
        """What colours stand for: in runs of one flow the controller, else another kind of thing that is swept.

        ``None`` when runs have several flows: then colours are flows.
        """
        if self.shared:
            return None
        dim = of_kind(self.dims, "congestion", "other")
        if dim is None and len(self.dims) == 1:
            dim = self.dims[0]
        return dim if dim is not None and len(dim.values) <= MOST_COLOURS else None

    @property
    def panel_dims(self) -> tuple[Dimension, ...]:
        """The dimensions that are not colours."""
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
        made = grid(dims, column, row, self.fixed)
        colours = self.colour_dim
        if colours is None or colours.key not in self.fixed:
            return made
        return replace(made, inside=((colours, (self.fixed[colours.key],)),))

    @cached_property
    def time_runs(self) -> pl.DataFrame:
        """The runs that figures over time show, of the first seed only: ``run, column, row`` and the cell."""
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
        """What the rows of figures over time call the runs that they show: their places in the store's index, as text,
        which no rounding of numbers touches."""
        places = self.store.index.select("run").with_row_index("place")
        shown = places.join(self.time_runs.select("run"), on="run", how="semi", maintain_order="left")
        return {run: str(place) for place, run in shown.iter_rows()}

    def numbered(self, frame: pl.DataFrame) -> pl.DataFrame:
        """``frame`` with these in the place of its runs, which figures over time show."""
        numbers = self.run_numbers
        named = pl.col("run").replace_strict(list(numbers), list(numbers.values()), return_dtype=pl.String)
        return frame.with_columns(run=named)

    @property
    def time_note(self) -> str:
        """Which of the runs figures over time show."""
        return " ".join(filter(None, [self.seed_note, self.time_grid.note]))

    @property
    def seed_note(self) -> str:
        """Which seed figures over time show; empty when there is one."""
        seeds = self.store.index["seed"].n_unique()
        return (
            f"The run of seed {self.time_runs['seed'].to_list()[0]}, of {seeds} seeds." if seeds > 1 else ""
        )

    def label(self, frame: pl.DataFrame) -> pl.DataFrame:
        """``frame`` with ``series``, what its colour stands for; it has the cell's columns, ``flow``, ``direction``."""
        dim = self.colour_dim
        if dim is not None:
            labels = [dim.label(value) for value in dim.values]
            named = pl.col(dim.key).replace_strict(list(dim.values), labels, return_dtype=pl.String)
        else:
            names = self.flow_names
            named = pl.concat_str("flow", "direction", separator=" ").replace_strict(
                list(names), list(names.values()), return_dtype=pl.String
            )
        return frame.with_columns(named.alias("series"))

    @cached_property
    def flow_names(self) -> dict[str, str]:
        """What flows are called in legends: with their controller where it is always the same, and their direction
        where a flow has two."""
        both = self.ways["flow"].is_duplicated().to_list()
        names = {}
        for (flow, direction, *_), two in zip(self.ways.rows(), both, strict=True):
            controllers = self.metrics.filter(pl.col("flow") == flow)["congestion"].unique().to_list()
            name = f"{flow} {direction}" if two else flow
            if len(controllers) == 1 and controllers[0] and controllers[0] != flow:
                name += f" ({controllers[0]})"
            names[f"{flow} {direction}"] = name
        return names

    @property
    def flow_names_short(self) -> dict[str, str]:
        """What flows are called where their controller stands beside them."""
        both = self.ways["flow"].is_duplicated().to_list()
        return {
            f"{flow} {direction}": f"{flow} {direction}" if two else flow
            for (flow, direction, *_), two in zip(self.ways.rows(), both, strict=True)
        }

    @cached_property
    def series(self) -> list[str]:
        """All series, in the order of their colours."""
        dim = self.colour_dim
        return (
            [dim.label(value) for value in dim.values] if dim is not None else list(self.flow_names.values())
        )

    def title(self, dim: Dimension) -> str:
        """What to call a dimension: a controller says whose, where runs have several flows."""
        parts = dim.key.split(".")
        if not dim.name and self.shared and parts[0] == "flow" and len(parts) > 2:
            return f"{parts[1]}'s controller"
        return dim.title

    @property
    def series_title(self) -> str | None:
        """What colours stand for."""
        return (
            self.title(self.colour_dim) if self.colour_dim is not None else ("flow" if self.shared else None)
        )
