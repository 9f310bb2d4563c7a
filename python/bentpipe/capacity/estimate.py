"""Estimate of a capacity before any run: rates of the path by the load of a mean user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.metrics.intervals import format_significant
from bentpipe.plan.spec.queries import rate_bit_s

if TYPE_CHECKING:
    from bentpipe.capacity.config import CapacityConfig
    from bentpipe.plan.spec.run_spec import FlowSpec, RunSpec

__all__ = ["DIRECTIONS", "Estimate", "describe_page", "estimate"]

DIRECTIONS = ("down", "up")


@dataclass(frozen=True)
class Estimate:
    """Rates of the path and load of a mean user in bit/s, by direction."""

    rates: dict[str, float | None]
    """Lowest rate of the links at the start; None without a constant rate."""
    loads: dict[str, float]
    """Calls with their headers, and bytes of pages. Users who download without end have no load."""

    @property
    def users(self) -> int | None:
        """Number of users at which a direction is full; None if the loads do not fill the path."""
        limits = self._limits()
        return int(min(limits.values())) if limits else None

    @property
    def full_direction(self) -> str | None:
        """Direction that is full first."""
        limits = self._limits()
        return min(limits, key=lambda direction: limits[direction]) if limits else None

    def _limits(self) -> dict[str, float]:
        return {
            direction: rate / self.loads[direction]
            for direction, rate in self.rates.items()
            if rate is not None and self.loads[direction] > 0
        }


def estimate(config: CapacityConfig, spec: RunSpec) -> Estimate:
    """Return the estimate of a search.

    A user who loads pages loads one in each pause and each longest permitted load time.

    Args:
        config: the search.
        spec: any run of the search.
    """
    first = {flow["name"].rpartition("-")[0]: flow for flow in reversed(spec["flows"])}
    loads = dict.fromkeys(DIRECTIONS, 0.0)
    for kind in config.kinds:
        for direction in DIRECTIONS:
            loads[direction] += config.mix[kind] * _bit_s(first[kind], direction, config)
    return Estimate({direction: _lowest_rate(spec, direction) for direction in DIRECTIONS}, loads)


def describe_page(spec: RunSpec) -> str:
    """Return name, requests and bytes of the page that users load; empty without such users.

    Args:
        spec: any run of the search.
    """
    for flow in spec["flows"]:
        load = flow["load"]
        if load["kind"] == "page":
            objects = load["page"]["objects"]
            total_bytes = sum(item["body_bytes"] for item in objects)
            requests = f"{len(objects)} request" + ("" if len(objects) == 1 else "s")
            return f"{load['page']['name']} ({requests}, {format_significant(total_bytes / 1e6, 2)} MB)"
    return ""


def _bit_s(flow: FlowSpec, direction: str, config: CapacityConfig) -> float:
    """Return the load of one user in bit/s."""
    load, transport = flow["load"], flow["transport"]
    if load["kind"] == "datagrams":
        source = load["down"] if direction == "down" else load["up"]
        if source is None:
            return 0.0
        header_bytes = transport["header_bytes"] if transport["kind"] == "udp" else 0
        periods = source["periods"]
        active = 1.0 if periods is None else periods["on_ns"] / (periods["on_ns"] + periods["off_ns"])
        return active * 8e9 * (source["payload_bytes"] + header_bytes) / source["interval_ns"]
    if load["kind"] == "page":
        objects = load["page"]["objects"]
        sent = (
            sum(item["response_header_bytes"] + item["body_bytes"] for item in objects)
            if direction == "down"
            else sum(item["request_bytes"] for item in objects)
        )
        pause_s = sum(load["pause_ns"]) / max(len(load["pause_ns"]), 1) / 1e9
        longest = config.criterion.page
        return 8 * sent / (pause_s + (0.0 if longest is None else longest.ns / 1e9) or 1.0)
    return 0.0


def _lowest_rate(spec: RunSpec, direction: str) -> float | None:
    links = spec["graph"]["links"]
    stages = [stage for link in links for stage in (link["down"] if direction == "down" else link["up"])]
    return min((rate for stage in stages if (rate := rate_bit_s(stage)) is not None), default=None)
