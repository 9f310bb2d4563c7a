"""Cost estimate of a run before it starts: events and memory. Runs above the limits are rejected.

The estimate is within a factor of two for the loads that the tests run, which suffices for the default limits. It
counts capacity as used even if a congestion controller leaves it unused.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.cost.flow_cost import CostItem, FlowCost
from bentpipe.plan.dtn.bundle_paths import bundle_shares
from bentpipe.plan.flow.groups import count_series, flow_groups
from bentpipe.plan.spec.queries import rate_bit_s
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.plan.plan import Plan, Run
    from bentpipe.plan.resolve import Resolved
    from bentpipe.plan.spec.run_spec import TopologySpec
    from bentpipe.scenario.model import Limits

__all__ = ["CostEstimate", "CostItem", "check_limits", "estimate_cost", "estimate_seconds", "run_weight"]

START_S = 1.2
"""Wall time in seconds until the workers run."""

KEEP_S = 0.045
"""Wall time in seconds of the coordinator per run."""

BYTES_RUN = 30e6
"""Memory of a run."""

BYTES_ROW = 0.65e3
"""Memory of each row of the time series, including its file during the creation."""

BYTES_ROUTE, BYTES_QUEUE = 4, 30e3
"""Memory of an entry of a routing table, and of the histogram of queueing delays of a queue."""

BYTES_HELD = 1.25
"""Memory of a byte in flight or in a queue."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Cost estimate of a run."""

    parts: tuple[CostItem, ...]

    @property
    def events(self) -> float:
        """Events of links and ends."""
        return sum(part.events for part in self.parts)

    @property
    def cpu_s(self) -> float:
        """Processor time of the engine in seconds."""
        return sum(part.cpu_s for part in self.parts)

    @property
    def memory_bytes(self) -> float:
        """Peak memory of the process of the run."""
        return sum(part.memory_bytes for part in self.parts)


def estimate_seconds(plan: Plan, jobs: int) -> float:
    """Return the wall time of a plan in seconds, with ``jobs`` workers on a host like that of the benchmark."""
    engine_s = sum(len(cell.seeds) * estimate_cost(cell.resolved).cpu_s for cell in plan.cells)
    return START_S + max(engine_s / min(jobs, len(plan.runs)), KEEP_S * len(plan.runs))


def run_weight(run: Run) -> float:
    """Return the weight of a run for the estimate of the remaining time: link time times Mbit/s."""
    stages = (stage for link in run.spec["graph"]["links"] for side in ("up", "down") for stage in link[side])
    rates = [rate for stage in stages if (rate := rate_bit_s(stage)) is not None]
    return float(run.spec["duration_ns"]) / 1e9 * max(min(rates, default=10_000_000) / 1e6, 0.1)


def check_limits(resolved: Resolved, limits: Limits) -> None:
    """Check the cost estimate of a run against ``limits``.

    Raises:
        ScenarioError: a path without rate and delay, or a cost above a limit, at the key of the largest part.
    """
    spec = resolved.spec
    checked: set[tuple[int, int]] = set()
    for flow in spec["flows"]:
        name = flow["name"]
        up, down = resolved.up[name], resolved.down[name]
        if (id(up), id(down)) in checked:
            continue
        checked.add((id(up), id(down)))
        if not any(hop.rate is not None or hop.delay_ns for hop in (*up, *down)):
            text = "no link of its path has a rate or a delay; expected either on a segment"
            raise ScenarioError([(f"flow.{name}", text)])
    cost = estimate_cost(resolved)
    if cost.events > limits.events:
        part = max(cost.parts, key=lambda part: part.events)
        amount = f"about {cost.events:,.0f} events"
        raise ScenarioError([(part.key, _limit_message(part, amount, f"{limits.events:_}", "events"))])
    if cost.memory_bytes > limits.memory.bytes:
        part = max(cost.parts, key=lambda part: part.memory_bytes)
        amount = f"about {cost.memory_bytes / 1e9:,.1f} GB of memory"
        raise ScenarioError([(part.key, _limit_message(part, amount, str(limits.memory), "memory"))])


def _limit_message(part: CostItem, amount: str, limit: str, name: str) -> str:
    return f"{part.reason}: a run takes {amount}, expected at most limits.{name} = {limit}"


def estimate_cost(resolved: Resolved) -> CostEstimate:
    """Return the cost estimate of a run."""
    spec = resolved.spec
    duration_s = spec["duration_ns"] / 1e9
    flows = _flow_costs(resolved, flow_groups(spec), duration_s)
    _share_links(flows, duration_s)
    queues = {
        hop.name for flow in flows for hops in flow.hops.values() for hop in hops if hop.rate is not None
    }
    network_bytes = _route_entries(spec["graph"]) * BYTES_ROUTE + len(queues) * BYTES_QUEUE
    parts = [CostItem("duration", "a run", memory_bytes=BYTES_RUN + network_bytes)]
    items_of_group: dict[str, list[list[CostItem]]] = defaultdict(list)
    for flow in flows:
        items_of_group[flow.group] += [list(flow.parts(spec["trace"]))] * flow.count
    parts += [_sum_items(same) for members in items_of_group.values() for same in zip(*members, strict=True)]
    samples = spec["duration_ns"] / spec["sample_interval_ns"]
    of_flows, of_links = count_series(spec)
    rows = 2 * of_flows * (1 + len(spec.get("proxies", ()))) + 2 * of_links
    reason = f"{samples:,.0f} samples of {rows} rows each"
    parts.append(CostItem("sample", reason, samples, samples * rows * BYTES_ROW))
    parts += [
        CostItem(f"flow.{group}", "packets in flight and in queues", memory_bytes=size * BYTES_HELD)
        for group, size in _buffered_bytes(flows)
    ]
    parts += [part for flow in flows if (part := flow.proxy_buffers()) is not None]
    return CostEstimate(tuple(parts))


def _flow_costs(resolved: Resolved, groups: Mapping[str, str], duration_s: float) -> list[FlowCost]:
    """Return the costs of all flows in order; the flows of a group over the same links share one."""
    flow_costs: list[FlowCost] = []
    last: dict[str, FlowCost] = {}
    crossing = bundle_shares(resolved.spec)
    for flow in resolved.spec["flows"]:
        name = flow["name"]
        group = groups.get(name, name)
        same = last.get(group)
        if same is not None and same.hops == {"up": resolved.up[name], "down": resolved.down[name]}:
            same.count += 1
        else:
            last[group] = FlowCost(flow, group, resolved, duration_s, crossing.get(name, ()))
            flow_costs.append(last[group])
    return flow_costs


def _sum_items(parts: Sequence[CostItem]) -> CostItem:
    """Return the sum of one part over all flows of a group."""
    first = parts[0]
    return CostItem(
        first.key,
        first.reason if len(parts) == 1 else f"{first.reason}, of each of {len(parts)} flows",
        sum(part.events for part in parts),
        sum(part.memory_bytes for part in parts),
        sum(part.cpu_s for part in parts),
    )


def _route_entries(graph: TopologySpec) -> int:
    """Return the number of routing entries of the engine: node to end, in each version of the graph."""
    ends = sum(node["kind"] != "router" for node in graph["nodes"])
    return ends * len(graph["nodes"]) * (1 + len(graph.get("changes", ())))


def _share_links(flows: Sequence[FlowCost], duration_s: float) -> None:
    """Limit the bytes of flows to the capacity of each link; sources of constant rate are not limited."""
    for direction in ("up", "down"):
        flows_of_link: dict[str, list[FlowCost]] = defaultdict(list)
        capacity: dict[str, float] = {}
        for flow in flows:
            for hop in flow.hops[direction]:
                if hop.rate is not None and not flow.constant_bit_s[direction]:
                    flows_of_link[hop.name].append(flow)
                    capacity[hop.name] = hop.rate.bit_s / 8 * duration_s
        for name in sorted(capacity, key=capacity.__getitem__):
            total = sum(flow.bytes[direction] for flow in flows_of_link[name] for _ in range(flow.count))
            for flow in flows_of_link[name] if total > capacity[name] else ():
                flow.bytes[direction] *= capacity[name] / total


def _buffered_bytes(flows: Sequence[FlowCost]) -> Iterator[tuple[str, float]]:
    """Yield the bytes in flight and in queues of each bottleneck, with the group of one of its flows."""
    for direction in ("up", "down"):
        groups: dict[str, list[FlowCost]] = defaultdict(list)
        for flow in flows:
            bottleneck = flow.bottleneck(direction)
            groups[bottleneck.name if bottleneck is not None else f"{flow.name} alone"].append(flow)
        for group in groups.values():
            size = sum(
                min(flow.window[direction] * flow.connections, flow.bytes[direction]) * flow.count
                for flow in group
            )
            bottleneck = group[0].bottleneck(direction)
            if bottleneck is not None and bottleneck.rate is not None and bottleneck.queue_bytes is not None:
                bdp = bottleneck.rate.bit_s / 8 * max(flow.rtt_s for flow in group)
                size = min(size, bdp + bottleneck.queue_bytes)
            yield group[0].group, size
