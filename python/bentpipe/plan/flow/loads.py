"""Loads of data (``LoadSpec``): streams of the perf protocol, random arrivals and on-off sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.flow import perf_string
from bentpipe.scenario.quantities import Duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.plan.spec.run_spec import (
        AmountSpec,
        Direction,
        LoadSpec,
        OnOffLoadSpec,
        SizeSpec,
        StreamSpec,
    )
    from bentpipe.scenario.model import DrawnSize, Load

__all__ = ["load_spec", "senders", "stream_specs"]

SendDirection = Literal["up", "down", "both"] | None


def load_spec(load: Load | None, send: SendDirection, remaining_ns: int) -> LoadSpec:
    """Return the load of a flow that loads no page and sends no datagrams.

    Args:
        load: the table of the scenario; None sends until the end of the run.
        send: direction; None means up.
        remaining_ns: time from the start of the flow to the end of the run.

    Raises:
        ScenarioError: a table without a load, or an invalid perf string.
    """
    if load is None:
        return _perf(_timed(remaining_ns, send, 1))
    if load.pico_perf is not None:
        return _perf(perf_string.parse(load.pico_perf))
    if load.time is not None:
        return _perf(_timed(load.time.ns, send, load.streams))
    if load.bytes is not None:
        return _perf(_sized(load.bytes.bytes, send, load.streams))
    direction: Direction = "down" if send == "down" else "up"
    if load.poisson is not None:
        return {
            "kind": "poisson",
            "mean_interarrival_ns": load.poisson.interval.ns,
            "size": _size(load.poisson.size),
            "direction": direction,
            "duration_ns": load.poisson.time.ns if load.poisson.time is not None else remaining_ns,
        }
    source = load.on_off
    if source is None:
        raise ScenarioError([("load", "found none, expected a load")])
    spec: OnOffLoadSpec = {
        "kind": "on_off",
        "on_ns": source.on.ns,
        "off_ns": source.off.ns,
        "exponential": source.distribution == "exponential",
        "rate_bit_s": source.rate.bit_s if source.rate is not None else None,
        "direction": direction,
        "duration_ns": source.time.ns if source.time is not None else remaining_ns,
    }
    if source.pareto_shape is not None:
        spec["pareto_shape"] = source.pareto_shape
    return spec


def _size(size: DrawnSize) -> SizeSpec:
    if size.exponential is not None:
        return {"kind": "exponential", "mean_bytes": size.exponential.bytes}
    if size.pareto is not None:
        low, high = size.pareto.min.bytes, size.pareto.max.bytes
        return {"kind": "pareto", "shape": float(size.pareto.shape), "min_bytes": low, "max_bytes": high}
    return {"kind": "fixed", "bytes": size.fixed.bytes if size.fixed is not None else 0}


def _perf(streams: Iterable[perf_string.Stream]) -> LoadSpec:
    return {"kind": "perf", "streams": stream_specs(streams)}


def _timed(duration_ns: int, send: SendDirection, count: int) -> tuple[perf_string.Stream, ...]:
    amounts = [
        perf_string.TimeAmount(Duration(duration_ns), side) for side in _sides(send) for _ in range(count)
    ]
    return tuple(perf_string.Stream(4 * index, None, amount) for index, amount in enumerate(amounts))


def _sized(size: int, send: SendDirection, count: int) -> tuple[perf_string.Stream, ...]:
    """Return streams of ``size`` bytes; downward streams begin with a request of 8 bytes (the response size)."""
    amount_of = {
        "up": perf_string.DataAmount(size, 0),
        "down": perf_string.DataAmount(perf_string.HEADER_BYTES, size),
    }
    amounts = [amount_of[side] for side in _sides(send) for _ in range(count)]
    return tuple(perf_string.Stream(4 * index, None, amount) for index, amount in enumerate(amounts))


def _sides(send: SendDirection) -> tuple[Direction, ...]:
    if send == "both":
        return ("up", "down")
    return ("down",) if send == "down" else ("up",)


def stream_specs(streams: Iterable[perf_string.Stream]) -> list[StreamSpec]:
    """Return the ``StreamSpec`` of streams of the perf protocol."""
    return [
        {"stream_id": stream.stream_id, "after": stream.after, "amount": _amount(stream.amount)}
        for stream in streams
    ]


def _amount(amount: perf_string.TimeAmount | perf_string.DataAmount) -> AmountSpec:
    if isinstance(amount, perf_string.TimeAmount):
        return {"mode": "time", "duration_ns": amount.duration.ns, "direction": amount.send}
    return {"mode": "data", "up_bytes": amount.up_bytes, "down_bytes": amount.down_bytes}


def senders(load: LoadSpec) -> set[str]:
    """Return the sides ("client", "server") of a resolved load that send more than a request."""
    if load["kind"] == "poisson":
        return {"client" if load["direction"] == "up" else "server"}
    sides: set[str] = set()
    for stream in load["streams"] if load["kind"] == "perf" else ():
        amount = stream["amount"]
        if amount["mode"] == "time":
            sides.add("client" if amount["direction"] == "up" else "server")
        else:
            sides |= {"client"} if amount["up_bytes"] > perf_string.HEADER_BYTES else set()
            sides |= {"server"} if amount["down_bytes"] else set()
    return sides or {"client", "server"}
