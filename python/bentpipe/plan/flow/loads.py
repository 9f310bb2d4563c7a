"""What a flow sends in the engine's words (``LoadSpec``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.flow import perf_string as loads
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

Way = Literal["up", "down", "both"] | None


def load_spec(load: Load | None, send: Way, rest_ns: int) -> LoadSpec:
    """The load of a flow that loads no page; without one, it sends until the run ends.

    Args:
        load: as the scenario has it.
        send: which way; None: up.
        rest_ns: from the flow's start to the end of the run.
    """
    if load is None:
        return _perf(_timed(rest_ns, send, 1))
    if load.pico_perf is not None:
        return _perf(loads.parse(load.pico_perf))
    if load.time is not None:
        return _perf(_timed(load.time.ns, send, load.streams))
    if load.bytes is not None:
        return _perf(_sized(load.bytes.bytes, send, load.streams))
    way: Direction = "down" if send == "down" else "up"
    if load.poisson is not None:
        return {
            "kind": "poisson",
            "mean_interarrival_ns": load.poisson.every.ns,
            "size": _size(load.poisson.size),
            "send": way,
            "duration_ns": load.poisson.time.ns if load.poisson.time is not None else rest_ns,
        }
    source = load.on_off
    if source is None:
        raise ScenarioError([("load", "found none, expected a load")])
    words: OnOffLoadSpec = {
        "kind": "on_off",
        "on_ns": source.on.ns,
        "off_ns": source.off.ns,
        "exponential": source.distribution == "exponential",
        "rate_bit_s": source.rate.bit_s if source.rate is not None else None,
        "send": way,
        "duration_ns": source.time.ns if source.time is not None else rest_ns,
    }
    if source.pareto_shape is not None:
        words["pareto_shape"] = source.pareto_shape
    return words


def _size(size: DrawnSize) -> SizeSpec:
    if size.exponential is not None:
        return {"kind": "exponential", "mean_bytes": size.exponential.bytes}
    if size.pareto is not None:
        drawn = size.pareto
        least, most = drawn.least.bytes, drawn.most.bytes
        return {"kind": "pareto", "shape": float(drawn.shape), "least_bytes": least, "most_bytes": most}
    return {"kind": "fixed", "bytes": size.fixed.bytes if size.fixed is not None else 0}


def _perf(streams: Iterable[loads.Stream]) -> LoadSpec:
    return {"kind": "perf", "streams": stream_specs(streams)}


def _timed(duration_ns: int, send: Way, count: int) -> tuple[loads.Stream, ...]:
    amounts = [loads.TimeAmount(Duration(duration_ns), side) for side in _sides(send) for _ in range(count)]
    return tuple(loads.Stream(4 * index, None, amount) for index, amount in enumerate(amounts))


def _sized(size: int, send: Way, count: int) -> tuple[loads.Stream, ...]:
    """Streams of ``size`` bytes; a request of 8 bytes (the response size) asks for those downwards."""
    asked = {"up": loads.DataAmount(size, 0), "down": loads.DataAmount(loads.HEADER_BYTES, size)}
    amounts = [asked[side] for side in _sides(send) for _ in range(count)]
    return tuple(loads.Stream(4 * index, None, amount) for index, amount in enumerate(amounts))


def _sides(send: Way) -> tuple[Direction, ...]:
    if send == "both":
        return ("up", "down")
    return ("down",) if send == "down" else ("up",)


def stream_specs(streams: Iterable[loads.Stream]) -> list[StreamSpec]:
    """Streams of the perf protocol."""
    return [
        {"stream_id": stream.stream_id, "after": stream.after, "amount": _amount(stream.amount)}
        for stream in streams
    ]


def _amount(amount: loads.TimeAmount | loads.DataAmount) -> AmountSpec:
    if isinstance(amount, loads.TimeAmount):
        return {"mode": "time", "duration_ns": amount.duration.ns, "send": amount.send}
    return {"mode": "data", "up_bytes": amount.up_bytes, "down_bytes": amount.down_bytes}


def senders(load: LoadSpec) -> set[str]:
    """Sides of a resolved load whose controller matters: those that send more than a request."""
    if load["kind"] == "poisson":
        return {"client" if load["send"] == "up" else "server"}
    found: set[str] = set()
    for stream in load["streams"] if load["kind"] == "perf" else ():
        amount = stream["amount"]
        if amount["mode"] == "time":
            found.add("client" if amount["send"] == "up" else "server")
        else:
            found |= {"client"} if amount["up_bytes"] > loads.HEADER_BYTES else set()
            found |= {"server"} if amount["down_bytes"] else set()
    return found or {"client", "server"}
