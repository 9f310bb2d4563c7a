"""Competition of flows: flows of one direction that share a link of limited rate at the same time.

Jain's index of flows that do not compete would compare links or times, not shares of one resource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.plan.spec.queries import rate_bit_s

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import RunSpec, StageSpec
    from bentpipe.store.reader import Store

__all__ = ["competing_directions", "elastic_flows", "links_of_flows"]

_ANY = ""
"""Link of all flows of a run whose routes are unknown."""


def elastic_flows(store: Store, starts: pl.DataFrame) -> pl.DataFrame:
    """Return the flows and directions that compete for rate: all but datagram flows beside other flows.

    A call sends its bit rate whatever the share of other flows, so an index of both would compare a need with a share.

    Args:
        store: store of the runs.
        starts: :func:`bentpipe.metrics.compute.starts_and_ends`.
    """
    calls = store.rows("calls", ["flow"])
    if not calls.height or not starts.height:
        return starts
    datagrams = calls.select("run", "flow", datagrams=pl.lit(True)).unique(maintain_order=True)
    marked = starts.join(datagrams, on=["run", "flow"], how="left", maintain_order="left")
    is_datagrams = pl.col("datagrams").fill_null(False)
    return marked.filter(~is_datagrams | is_datagrams.all().over("run", "direction")).drop("datagrams")


def competing_directions(store: Store, starts: pl.DataFrame) -> pl.DataFrame:
    """Return the directions of runs in which at least two flows compete: ``run, direction``.

    The topology of a cell is that of its first run. Flows on unknown routes, as in a graph with several routes between
    two nodes, count as flows of one link.

    Args:
        store: store of the runs.
        starts: :func:`bentpipe.metrics.compute.starts_and_ends`.
    """
    several = starts.filter(pl.len().over("run", "direction") > 1).drop_nulls("data_start_s")
    several = several.with_columns(pl.col("data_end_s").fill_null(float("inf")))
    if not several.height:
        return several.select("run", "direction")
    cells = store.index.select("run", *store.columns)
    cells = cells.join(several.select("run").unique(), on="run", how="semi", maintain_order="left")
    keys = [pl.col(key) for key in store.columns] or [pl.lit(0)]
    cells = cells.with_columns(first=pl.col("run").first().over(keys))
    rows: list[tuple[str, str, str, str]] = []
    for run, spec in store.specs(cells["first"].unique(maintain_order=True).to_list()).items():
        for flow, by_direction in links_of_flows(spec).items():
            rows += [(run, flow, way, link) for way, links in by_direction.items() for link in links]
    schema = dict.fromkeys(("first", "flow", "direction", "link"), pl.String)
    routes = pl.DataFrame(rows, schema=schema, orient="row")
    spans = several.join(cells.select("run", "first"), on="run", how="left", maintain_order="left")
    unknown = spans.join(routes, on=["first"], how="anti").with_columns(link=pl.lit(_ANY))
    known = spans.join(routes, on=["first", "flow", "direction"], how="inner")
    by = ["run", "direction", "link"]
    columns = [*by, "data_start_s", "data_end_s"]
    ordered = pl.concat([known.select(columns), unknown.select(columns)]).sort([*by, "data_start_s"])
    busy = pl.col("data_end_s").cum_max().shift(1).over(by)
    found = ordered.filter(pl.col("data_start_s") < busy).select("run", "direction").unique()
    return several.select("run", "direction").unique(maintain_order=True).join(
        found, on=["run", "direction"], how="semi", maintain_order="left"
    )  # fmt: skip


def links_of_flows(spec: RunSpec) -> dict[str, dict[str, list[str]]]:
    """Return the links of limited rate on the route of each flow, by flow and direction; empty if routes are unknown.

    Routes are known in a graph without cycles, where only one exists.
    """
    links: Sequence[Mapping[str, Any]] = spec["graph"]["links"]
    neighbours: dict[str, list[tuple[str, Mapping[str, Any], bool]]] = {}
    for link in links:
        neighbours.setdefault(link["client_side"], []).append((link["server_side"], link, True))
        neighbours.setdefault(link["server_side"], []).append((link["client_side"], link, False))
    trees = _trees(neighbours)
    if len(links) != len(neighbours) - len(set(trees.values())):
        return {}
    found: dict[str, dict[str, list[str]]] = {}
    for flow in spec["flows"]:
        route = _route(neighbours, flow["client"], flow["server"])
        found[flow["name"]] = {
            way: [
                f"{link['name']}.{side}"
                for link, forward in route
                for side in ("up" if forward == (way == "up") else "down",)
                if any(_is_limited(stage) for stage in link[side])
            ]
            for way in ("up", "down")
        }
    return found


def _is_limited(stage: StageSpec) -> bool:
    """Return whether packets wait for each other in a stage."""
    return stage["kind"] == "transmit" or rate_bit_s(stage) is not None


_Neighbours = Mapping[str, Sequence[tuple[str, Mapping[str, Any], bool]]]


def _trees(neighbours: _Neighbours) -> dict[str, str]:
    """Return a representative node of the connected part of each node."""
    part: dict[str, str] = {}
    for start in neighbours:
        waiting = [] if start in part else [start]
        while waiting:
            node = waiting.pop()
            part[node] = start
            waiting += [other for other, _, _ in neighbours[node] if other not in part]
    return part


def _route(neighbours: _Neighbours, client: str, server: str) -> list[tuple[Mapping[str, Any], bool]]:
    """Return the links of the only route, each with whether the route goes from its client side to its server side."""
    routes: dict[str, list[tuple[Mapping[str, Any], bool]]] = {client: []}
    waiting = [client]
    while waiting and server not in routes:
        node = waiting.pop()
        for other, link, forward in neighbours.get(node, ()):
            if other not in routes:
                routes[other] = [*routes[node], (link, forward)]
                waiting.append(other)
    return routes.get(server, [])
