"""JSON with every number of a preset, and its schema. A change of the fields is a new :data:`VERSION`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bentpipe.preset_export.format import Format
from bentpipe.preset_export.formats import describe_limits
from bentpipe.preset_export.losses import LossTable, to_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.plan.spec.run_spec import JitterModel
    from bentpipe.preset_export.access import Access, AccessDirection

__all__ = ["FORMAT", "VERSION", "json_schema", "to_json"]

VERSION: Literal[1] = 1
"""Version of the document."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Jitter(_Table):
    """Random delay of each packet, in addition to the delay: uniform from 0 to ``max_s``, normal, or exponential."""

    distribution: Literal["uniform", "normal", "exponential"]
    max_s: float | None = None
    mean_s: float | None = None
    deviation_s: float | None = None


class _Queue(_Table):
    """Queue of the transmitter. ``counted_in`` is the unit of its limit, the other one has packets of 1500 bytes."""

    discipline: str
    counted_in: Literal["bytes", "packets"] | None = Field(description="null: unlimited")
    bytes: int | None
    packets: int | None


class _RateChange(_Table):
    at_s: float
    rate_bit_s: int


class _DelayChange(_Table):
    at_s: float
    delay_s: float


class _LossChange(_Table):
    at_s: float
    probability: float


class _DeliveryTrace(_Table):
    """Instants at which up to ``opportunity_bytes`` may depart, which repeat."""

    opportunity_bytes: int
    repeat_s: float
    instants_s: list[float]


class _Outage(_Table):
    at_s: float
    duration_s: float


class _Outages(_Table):
    windows: list[_Outage]
    repeat_s: float | None
    buffer_packets: bool = Field(description="packets wait; false: packets are lost")


class _Bursts(_Table):
    """Losses of everything at the start of an interval, in both directions."""

    probability: float
    duration_s: list[float]


class _Reconfiguration(_Table):
    """Intervals with random values. Lists are quantiles for equally spaced probabilities from 0 to 1."""

    interval_s: float
    phase_s: float = Field(description="of the first boundary; for Starlink from second 0 of a minute on")
    rate_bit_s: list[int]
    delay_s: list[float]
    delay_jitter_s: list[float] = Field(description="added to the delay; a new value every delay_step_s")
    delay_step_s: float | None
    delay_correlation: float | None = Field(description="of the jitter, from step to step")
    loss: list[float] = Field(description="probability of single losses in an interval")
    loss_bursts: _Bursts | None


class _Direction(_Table):
    """One direction, end to end: queue and rate, then losses, then delay."""

    rate_bit_s: int | None = Field(description="at the start, or the median of random rates; null: no limit")
    rate_changes: list[_RateChange]
    delivery_trace: _DeliveryTrace | None
    queue: _Queue
    delay_s: float = Field(description="one-way delay at the start, or the median of random delays")
    delay_changes: list[_DelayChange]
    jitter: _Jitter | None
    loss: LossTable | None
    loss_changes: list[_LossChange]
    outages: _Outages | None
    reconfiguration: _Reconfiguration | None
    link_layer: str | None = Field(description="properties of a radio link that determine its rate, in words")
    further: list[str] = Field(description="further properties, in words; `scenario` has their numbers")


class _Segment(_Table):
    name: str
    delay_down_s: float
    delay_up_s: float


class _Source(_Table):
    text: str
    links: list[str]
    guesses: list[str] = Field(description="quantities without a source")


class _Preset(_Table):
    name: str
    title: str
    access: str = Field(description="kind of the access network")
    basis: str = Field(description="measured, specified or estimated; empty if its author does not say")
    source: _Source
    rtt_s: float = Field(description="sum of both one-way delays, without queueing and transmission")
    down: _Direction = Field(description="from server to client")
    up: _Direction = Field(description="from client to server")
    segments: list[_Segment] = Field(description="parts of the one-way delays, from client to server")
    limits: dict[str, list[str]] = Field(
        description="properties that the formats of other tools lack, by format"
    )
    scenario: list[dict[str, Any]] = Field(description="[[path.segment]] of a scenario of bentpipe")


class _Document(_Table):
    """Presets of access networks. Rates are in bit/s, times in s, sizes in bytes, probabilities from 0 to 1."""

    format: Literal["bentpipe-presets"]
    version: Literal[1]
    presets: list[_Preset]


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of the document."""
    schema = _Document.model_json_schema()
    text = json.dumps(schema).replace("#/$defs/_", "#/$defs/")
    named = json.loads(text)
    named["$defs"] = {name.lstrip("_"): table for name, table in named["$defs"].items()}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **named, "title": "bentpipe presets"}


def to_json(accesses: Sequence[Access]) -> str:
    """Return the document of some presets."""
    document = _Document(
        format="bentpipe-presets", version=VERSION, presets=[_preset(one) for one in accesses]
    )
    return document.model_dump_json(indent=2) + "\n"


def _preset(access: Access) -> _Preset:
    preset = access.preset
    return _Preset(
        name=preset.name,
        title=preset.title,
        access=preset.access,
        basis=preset.basis,
        source=_Source(text=preset.source, links=preset.links, guesses=preset.guesses),
        rtt_s=access.rtt_ns / 1e9,
        down=_direction(access.down),
        up=_direction(access.up),
        segments=[
            _Segment(name=name, delay_down_s=down / 1e9, delay_up_s=up / 1e9)
            for name, (down, up) in access.delays_ns.items()
        ],
        limits=describe_limits(access),
        scenario=preset.segments,
    )


def _direction(direction: AccessDirection) -> _Direction:
    queue, trace = direction.queue, direction.opportunities
    counted_in: Literal["bytes", "packets"] | None = None
    if queue.packets is not None:
        counted_in = "packets" if queue.limit_bytes is None else "bytes"
    return _Direction(
        rate_bit_s=direction.rate_bit_s,
        rate_changes=[_RateChange(at_s=at / 1e9, rate_bit_s=bit_s) for at, bit_s in direction.rate_changes],
        delivery_trace=None
        if trace is None
        else _DeliveryTrace(
            opportunity_bytes=trace["opportunity_bytes"],
            repeat_s=trace["repeat_ns"] / 1e9,
            instants_s=_seconds(trace["opportunities_ns"]),
        ),
        queue=_Queue(
            discipline=queue.discipline.replace("_", "-"),
            counted_in=counted_in,
            bytes=queue.bytes,
            packets=queue.packets,
        ),
        delay_s=direction.delay_ns / 1e9,
        delay_changes=[
            _DelayChange(at_s=at / 1e9, delay_s=delay / 1e9) for at, delay in direction.delay_changes
        ],
        jitter=_jitter(direction.jitter),
        loss=to_table(direction.loss),
        loss_changes=[_LossChange(at_s=at / 1e9, probability=share) for at, share in direction.loss_changes],
        outages=_outages(direction),
        reconfiguration=_reconfiguration(direction),
        link_layer=direction.link_layer,
        further=list(direction.omitted),
    )


def _seconds(values_ns: Sequence[int]) -> list[float]:
    return [value / 1e9 for value in values_ns]


def _jitter(model: JitterModel | None) -> _Jitter | None:
    if model is None:
        return None
    if model["kind"] == "uniform":
        return _Jitter(distribution="uniform", max_s=model["max_ns"] / 1e9)
    if model["kind"] == "normal":
        return _Jitter(
            distribution="normal", mean_s=model["mean_ns"] / 1e9, deviation_s=model["deviation_ns"] / 1e9
        )
    return _Jitter(distribution="exponential", mean_s=model["mean_ns"] / 1e9)


def _outages(direction: AccessDirection) -> _Outages | None:
    found = direction.outages
    if found is None:
        return None
    return _Outages(
        windows=[
            _Outage(at_s=start / 1e9, duration_s=(end - start) / 1e9) for start, end in found.windows_ns
        ],
        repeat_s=None if found.repeat_ns is None else found.repeat_ns / 1e9,
        buffer_packets=found.buffer_packets,
    )


def _reconfiguration(direction: AccessDirection) -> _Reconfiguration | None:
    found = direction.intervals
    if found is None:
        return None
    bursts = None
    if found.burst_probability:
        bursts = _Bursts(probability=found.burst_probability, duration_s=_seconds(found.burst_ns))
    return _Reconfiguration(
        interval_s=found.interval_ns / 1e9,
        phase_s=found.phase_ns / 1e9,
        rate_bit_s=list(found.rate_bit_s),
        delay_s=_seconds(found.delay_ns),
        delay_jitter_s=_seconds(found.jitter_ns),
        delay_step_s=None if found.step_ns is None else found.step_ns / 1e9,
        delay_correlation=found.correlation,
        loss=list(found.loss),
        loss_bursts=bursts,
    )


def _write(access: Access) -> dict[str, str]:
    return {f"{access.preset.name}.json": to_json([access])}


FORMAT = Format(_write, write_together=to_json)
