"""The two directions of an access, end to end, from the resolved run of a preset.

A direction has one transmitter. Delays of all segments are added. Everything that the fields do not hold is named in
``omitted``, so that each format can report it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.plan.spec.queries import rate_bit_s
from bentpipe.preset_export.quantiles import median_sum
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.package_data import preset_names
from bentpipe.scenario.presets import Preset, preset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe.plan.spec.run_spec import (
        JitterModel,
        LossModel,
        QueueSpec,
        RunSpec,
        StageSpec,
        TraceServiceSpec,
    )

__all__ = ["MTU", "Access", "AccessDirection", "Intervals", "Outages", "Queue", "load_access"]

MTU = 1500
"""Bytes of a full IP packet, for queues in packets."""


@dataclass(frozen=True)
class Queue:
    """Queue of a transmitter. Its limit is in bytes or in packets; neither: unlimited."""

    discipline: str = "drop_tail"
    limit_bytes: int | None = None
    limit_packets: int | None = None
    target_ns: int | None = None
    interval_ns: int | None = None

    @property
    def packets(self) -> int | None:
        """Limit in full packets, at least 1; None: unlimited."""
        if self.limit_packets is not None:
            return self.limit_packets
        return None if self.limit_bytes is None else max(1, self.limit_bytes // MTU)

    @property
    def bytes(self) -> int | None:
        """Limit in bytes of full packets; None: unlimited."""
        if self.limit_bytes is not None:
            return self.limit_bytes
        return None if self.limit_packets is None else self.limit_packets * MTU


@dataclass(frozen=True)
class Intervals:
    """Reconfiguration intervals. Tables are quantiles for equally spaced probabilities from 0 to 1."""

    interval_ns: int
    phase_ns: int = 0
    rate_bit_s: Sequence[int] = ()
    delay_ns: Sequence[int] = ()
    jitter_ns: Sequence[int] = ()
    step_ns: int | None = None
    correlation: float | None = None
    loss: Sequence[float] = ()
    burst_probability: float = 0.0
    burst_ns: Sequence[int] = ()


@dataclass(frozen=True)
class Outages:
    """Outages ``(start, end)`` in ns."""

    windows_ns: Sequence[Sequence[int]]
    repeat_ns: int | None
    buffer_packets: bool


@dataclass(frozen=True)
class AccessDirection:
    """One direction, end to end. Random rates and delays of intervals have their medians here."""

    rate_bit_s: int | None = None
    rate_changes: Sequence[tuple[int, int]] = ()
    """New rates: instant in ns, bit/s."""
    opportunities: TraceServiceSpec | None = None
    queue: Queue = Queue()
    delay_ns: int = 0
    delay_changes: Sequence[tuple[int, int]] = ()
    """New one-way delays: instant in ns, ns."""
    loss: LossModel | None = None
    loss_changes: Sequence[tuple[int, float]] = ()
    jitter: JitterModel | None = None
    outages: Outages | None = None
    intervals: Intervals | None = None
    link_layer: str | None = None
    """Properties of a radio link that determine its rate, in words."""
    omitted: tuple[str, ...] = ()
    """Further properties, in words."""


@dataclass(frozen=True)
class Access:
    """Access network with both directions."""

    preset: Preset
    down: AccessDirection
    up: AccessDirection
    delays_ns: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """One-way delays down and up of each segment, ns."""

    @property
    def directions(self) -> dict[str, AccessDirection]:
        """Both directions by name."""
        return {"down": self.down, "up": self.up}

    @property
    def rtt_ns(self) -> int:
        """Round-trip time without queueing and transmission, ns."""
        return self.down.delay_ns + self.up.delay_ns


def load_access(name: str) -> Access:
    """Return the access of a preset, or of a file of the user with the segments of one.

    Raises:
        ScenarioError: no such preset or file, or an invalid path.
    """
    is_file = name.endswith(".toml")
    if not is_file and name not in preset_names():
        text = unknown_name(name, preset_names(), "preset", "a file with one (TOML)")
        raise ScenarioError([("NAME", text)], SOURCE_ARGUMENT)
    try:
        found = preset(name, Path())
    except ScenarioError as error:
        problems = [("NAME", text.replace(" beside the scenario", "")) for _, text in error.problems]
        raise ScenarioError(problems, SOURCE_ARGUMENT) from None
    flow = {"name": "any", "congestion": "cubic"}
    document = load_scenario({"duration": "1 h", "path": {"segment": found.segments}, "flow": [flow]})
    folder = Path(name).parent if is_file else document.folder
    spec = build_plan(replace(document, name=name, folder=folder), "", is_simulated=False).runs[0].spec
    return _to_access(replace(found, name=Path(name).stem) if is_file else found, spec)


def _to_access(found: Preset, spec: RunSpec) -> Access:
    links = spec["graph"]["links"]
    parts = {link["name"]: (_collect(link["down"]).delay_ns, _collect(link["up"]).delay_ns) for link in links}
    # Links are listed from client to server.
    down = _collect([stage for link in reversed(links) for stage in link["down"]])
    up = _collect([stage for link in links for stage in link["up"]])
    return Access(found, down, up, parts)


def _collect(stages: Sequence[StageSpec]) -> AccessDirection:
    direction = AccessDirection()
    for stage in stages:
        direction = _READERS.get(stage["kind"], _omit)(direction, stage)
    return direction


def _omit(direction: AccessDirection, stage: Any) -> AccessDirection:
    return _add_note(direction, str(stage["kind"]).replace("_", " "))


def _add_note(direction: AccessDirection, text: str) -> AccessDirection:
    return replace(direction, omitted=(*direction.omitted, text))


def _queue(spec: QueueSpec) -> Queue:
    if spec["kind"] == "fq_codel":
        return Queue(spec["kind"], None, spec["limit_packets"], spec["target_ns"], spec["interval_ns"])
    limit: Any = spec["limit"] or {}
    codel = (spec["target_ns"], spec["interval_ns"]) if spec["kind"] == "codel" else (None, None)
    return Queue(spec["kind"], limit.get("bytes"), limit.get("packets"), *codel)


def _add_transmitter(
    direction: AccessDirection, stage: Any, link_layer: str | None = None
) -> AccessDirection:
    if direction.rate_bit_s is not None or direction.opportunities is not None:
        return _add_note(direction, "a further transmitter")
    rate = rate_bit_s(stage)
    added = replace(
        direction,
        rate_bit_s=None if rate is None else round(rate),
        queue=_queue(stage["queue"]),
        link_layer=link_layer,
    )
    service = stage.get("service")
    if service is None:
        return added
    if service["kind"] == "trace":
        mean = len(service["opportunities_ns"]) * service["opportunity_bytes"] * 8e9 / service["repeat_ns"]
        return replace(added, opportunities=service, rate_bit_s=round(mean))
    if service["kind"] == "reconfiguration":
        table = service["rate_bit_s"]
        return _add_intervals(
            replace(added, rate_bit_s=round(_median(table))), service["reconfiguration"], rate_bit_s=table
        )
    changes = [(change["at_ns"], change["rate_bit_s"]) for change in service.get("changes", ())]
    return replace(added, rate_changes=changes)


def _add_nr(direction: AccessDirection, stage: Any) -> AccessDirection:
    errors = " and then ".join(f"{100 * value:g} %" for value in stage["decoder"].get("probabilities", ()))
    words = f"5G with {stage['processes']} HARQ processes"
    if stage["feedback_disabled_processes"]:
        words += f" ({stage['feedback_disabled_processes']} without feedback)"
    words += f", slots of {stage['slot_ns'] / 1e6:g} ms" + (f", block errors of {errors}" if errors else "")
    words += ", RLC AM" if stage["rlc"]["kind"] == "acknowledged" else ", RLC UM"
    return _add_transmitter(direction, stage, words)


def _add_radio(direction: AccessDirection, stage: Any) -> AccessDirection:
    attempts = stage["link_layer"]["attempts"]
    words = f"a rate of coded bits, frames of {stage['link_layer']['frame_bytes']} B"
    words += f" with up to {attempts} attempts" if attempts else " that repeat until they arrive"
    words += ", over a fading channel" if stage["channel"] else ""
    return _add_transmitter(direction, stage, words)


def _add_acm(direction: AccessDirection, stage: Any) -> AccessDirection:
    words = f"adaptive coding with {len(stage['modes'])} modes over a fading channel; the rate is the highest"
    return _add_transmitter(direction, stage, words)


def _add_netem(direction: AccessDirection, stage: Any) -> AccessDirection:
    if direction.rate_bit_s is not None:
        return _add_note(direction, "a further transmitter")
    return _add_note(
        replace(
            direction,
            rate_bit_s=stage["rate_bit_s"],
            queue=Queue("drop_tail", None, stage["limit_packets"]),
            delay_ns=direction.delay_ns + stage["delay_ns"],
        ),
        "a queue limit that counts packets in propagation",
    )


def _add_delay(direction: AccessDirection, stage: Any) -> AccessDirection:
    base = direction.delay_ns
    if direction.delay_changes and stage.get("changes"):
        return _add_note(
            replace(direction, delay_ns=base + stage["delay_ns"]), "further changes of the delay"
        )
    changes = [(at, delay + stage["delay_ns"]) for at, delay in direction.delay_changes] or [
        (change["at_ns"], base + change["delay_ns"]) for change in stage.get("changes", ())
    ]
    return replace(direction, delay_ns=base + stage["delay_ns"], delay_changes=changes)


def _add_delay_trace(direction: AccessDirection, stage: Any) -> AccessDirection:
    values = sorted(delay for _, delay in stage["points"])
    return _add_note(
        replace(direction, delay_ns=direction.delay_ns + round(_median(values))),
        f"a trace of {len(values)} delays; the delay is its median",
    )


def _add_interval_delay(direction: AccessDirection, stage: Any) -> AccessDirection:
    median = median_sum(stage["delay_ns"], stage["jitter_ns"] or [0])
    added = replace(direction, delay_ns=direction.delay_ns + int(round(median, -5)))
    return _add_intervals(
        added,
        stage["reconfiguration"],
        delay_ns=[direction.delay_ns + delay for delay in stage["delay_ns"]],
        jitter_ns=stage["jitter_ns"],
        step_ns=stage["step_ns"],
        correlation=stage["correlation"],
    )


def _add_loss(direction: AccessDirection, stage: Any) -> AccessDirection:
    model = stage["model"]
    if model["kind"] == "reconfiguration":
        return _add_intervals(
            direction,
            model["reconfiguration"],
            loss=model["probability"],
            burst_probability=model["burst_probability"],
            burst_ns=model["burst_ns"],
        )
    if direction.loss is not None:
        return _add_note(direction, "a further loss model")
    changes = [(change["at_ns"], change["probability"]) for change in stage.get("changes", ())]
    return replace(direction, loss=model, loss_changes=changes)


def _add_jitter(direction: AccessDirection, stage: Any) -> AccessDirection:
    added = replace(direction, jitter=stage["model"])
    return added if stage["reorder"] else _add_note(added, "jitter that preserves the order of packets")


def _add_outages(direction: AccessDirection, stage: Any) -> AccessDirection:
    if direction.outages is not None:
        return _add_note(direction, "further outages")
    return replace(direction, outages=Outages(stage["windows"], stage["repeat_ns"], stage["buffer_packets"]))


def _add_intervals(direction: AccessDirection, timing: Any, **tables: Any) -> AccessDirection:
    known = direction.intervals or Intervals(timing["interval_ns"], timing["phase_ns"])
    return replace(direction, intervals=replace(known, **tables))


def _median(table: Sequence[float]) -> float:
    middle = (len(table) - 1) / 2
    return (table[int(middle)] + table[int(middle + 0.5)]) / 2


_READERS: Mapping[str, Callable[[AccessDirection, Any], AccessDirection]] = {
    "transmit": _add_transmitter,
    "nr": _add_nr,
    "radio": _add_radio,
    "acm": _add_acm,
    "netem": _add_netem,
    "delay": _add_delay,
    "delay_trace": _add_delay_trace,
    "reconfiguration_delay": _add_interval_delay,
    "loss": _add_loss,
    "jitter": _add_jitter,
    "outage": _add_outages,
}
"""Reader of each kind of stage. Any other kind is a note."""
