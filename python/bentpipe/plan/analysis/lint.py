"""What is in order in a plan and yet hardly meant: each a sentence at its key, which `check`, `run` and Python say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.dtn.integrity import key_mismatches
from bentpipe.plan.flow.groups import representative_flows
from bentpipe.plan.flow.pages import har_notes
from bentpipe.plan.input_files import Files
from bentpipe.plan.link.channel import elevation_note
from bentpipe.plan.network.handovers import SIDES, handovers_of
from bentpipe.scenario.quantities import Duration
from bentpipe.scenario.sweep import axes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bentpipe.plan.plan import Cell, Plan
    from bentpipe.plan.spec.run_spec import FlowSpec, LoadSpec, RunSpec, TransmitStageSpec
    from bentpipe.scenario.model import Scenario
    from bentpipe.scenario.network.topology import Access

__all__ = ["LONG_NS", "LintMessage", "LintWarning", "lint_plan", "page_remarks"]

LONG_NS = 86_400 * 10**9
"""A day. Nothing that is studied here lasts longer, but over :data:`FAR_NS`: the slowest published transfers take
hours."""

FAR_NS = 60 * 10**9
"""A round trip of a minute: nowhere on Earth or around it, and beyond the timers that transports begin with."""

MOST_BACKOFF = 16
"""Doublings of a probe timeout, at the most."""


class LintWarning(UserWarning):
    """A :class:`Remark`, for the warnings of Python."""


@dataclass(frozen=True, slots=True)
class LintMessage:
    """A sentence about a key of a scenario."""

    key: str
    text: str

    def line(self, source: str) -> str:
        """With the file that it is said of."""
        return f"{source}: {self.key}: {self.text}"


def lint_plan(plan: Plan) -> tuple[LintMessage, ...]:
    """Of every cell, each key once: of the first cell that it is true of."""
    found: dict[str, LintMessage] = {}
    cells = [one for cell in plan.cells for one in _of_cell(cell)]
    for remark in [*_seeds(plan), *_axes(plan), *cells, *page_remarks(plan)]:
        found.setdefault(remark.key, remark)
    return tuple(found.values())


def page_remarks(plan: Plan) -> tuple[LintMessage, ...]:
    """Return what the HAR files of a plan's pages left open, each key once."""
    files = Files(plan.document.folder)
    found: dict[str, LintMessage] = {}
    for cell in plan.cells:
        for key, text in har_notes(cell.scenario, files).items():
            found.setdefault(key, LintMessage(key, text))
    return tuple(found.values())


def _seeds(plan: Plan) -> Iterator[LintMessage]:
    if plan.seeds > 1 and all(len(cell.seeds) == 1 for cell in plan.cells):
        why = "nothing in this scenario is left to chance: all would give the same, so one is run"
        yield LintMessage("seeds", f"found {plan.seeds}, but {why}")


def _axes(plan: Plan) -> Iterator[LintMessage]:
    """Of a sweep, those that change no run: a key above theirs decides, or nothing asks for them."""
    axes = axes_of(plan.document.data.get("sweep"))
    specs = [cell.resolved.spec for cell in plan.cells]
    step = len(specs)  # from one value of an axis to its next: the last axis is the fastest
    for key, values in axes.items():
        step //= len(values)
        places = range(len(specs))
        if len(values) > 1 and all(specs[at] == specs[at - at // step % len(values) * step] for at in places):
            what = f"found {len(values)} values, and all give the same run"
            yield LintMessage(
                f"sweep.{key}", f"{what}: another key stands above it, or nothing here asks for it"
            )


def _of_cell(cell: Cell) -> Iterator[LintMessage]:
    spec = cell.resolved.spec
    whole = spec["duration_ns"]
    if whole > LONG_NS and all(_trip(name, cell) < FAR_NS for name in cell.resolved.ways):
        yield LintMessage("duration", f"found {_time(whole)}, which is longer than a day")
    for name, flow in representative_flows(spec):
        yield from _of_flow(name, flow, cell, whole)
    yield from _of_handovers(cell.scenario, whole)
    yield from _of_holds(spec, "path" if cell.scenario.path is not None else "graph")
    yield from _of_channels(cell.scenario)
    if "dtn" in spec and spec["dtn"] is not None:
        yield from (LintMessage(key, text) for key, text in key_mismatches(spec["dtn"]))
    yield from _of_orbit(cell.scenario)


def _of_orbit(scenario: Scenario) -> Iterator[LintMessage]:
    rest = {key: value for key, value in scenario.to_dict().items() if key != "orbit"}
    if scenario.orbit is not None and not _follows(rest):
        yield LintMessage(
            "orbit", 'nothing follows it: no delay = { orbit = "first" }, no channel and no hand-over'
        )


def _follows(found: object) -> bool:
    """Whether an orbit is named anywhere, but in names and titles."""
    if isinstance(found, Mapping):
        said = [value for key, value in found.items() if key not in ("name", "title")]
        return "orbit" in found or _follows(said)
    return found == "orbit" or (isinstance(found, list) and any(_follows(one) for one in found))


def _of_channels(scenario: Scenario) -> Iterator[LintMessage]:
    for key, access in _accesses(scenario):
        for side in SIDES:
            channel = access.resolve_direction(side).channel
            where = f"{key}.{side}.channel"
            text = elevation_note(channel, where) if channel is not None else None
            if text is not None:
                yield LintMessage(f"{where}.elevation", text)


def _accesses(scenario: Scenario) -> Iterator[tuple[str, Access]]:
    """What has directions, each with its key."""
    for segment in scenario.path.segment if scenario.path is not None else ():
        yield f"path.{segment.name}", segment
    for link in scenario.graph.link if scenario.graph is not None else ():
        yield f"graph.{link.name}", link
    for flow in scenario.flow:
        if flow.access is not None:
            yield f"flow.{flow.name}.access", flow.access


def _of_handovers(scenario: Scenario, whole: int) -> Iterator[LintMessage]:
    for number, one in enumerate(handovers_of(scenario)):
        if one.at != "orbit" and one.at.ns >= whole:
            root = "path" if scenario.path is not None else "graph"
            text = f"found {one.at}, but the run lasts {_time(whole)}: it never happens"
            yield LintMessage(f"{root}.{one.name or f'handover[{number + 1}]'}.at", text)


def _of_holds(spec: RunSpec, root: str) -> Iterator[LintMessage]:
    """What a node has held comes to the queue of a link that is back all at once."""
    holds = {
        node["name"]: held for node in spec["graph"]["nodes"] if (held := node.get("hold_bytes")) is not None
    }
    changes = spec["graph"].get("changes", []) if holds else []
    down = {one["link"] for event in changes for one in event.get("links", []) if not one["in_use"]}
    for link in spec["graph"]["links"]:
        for side, start in (("up", link["client_side"]), ("down", link["server_side"])):
            stages = link["up"] if side == "up" else link["down"]
            bounds = [_room(stage) for stage in stages if stage["kind"] == "transmit"]
            room = next((bound for bound in bounds if bound is not None), None)
            if link["name"] in down and room is not None and holds.get(start, 0) > room:
                text = f"{start} may hold {_bytes(holds[start])}, which leave at once when the link is back"
                yield LintMessage(
                    f"{root}.{link['name']}.{side}.queue",
                    f"found {_bytes(room)}, and {text}: the rest finds no room",
                )


def _room(stage: TransmitStageSpec) -> int | None:
    """The bound of a queue, if it is one in bytes."""
    queue = stage["queue"]
    if queue["kind"] == "per_user" or queue["kind"] == "fq_codel":
        return None
    limit = queue["limit"]
    return limit["bytes"] if limit is not None and "bytes" in limit else None


def _of_flow(name: str, flow: FlowSpec, cell: Cell, whole: int) -> Iterator[LintMessage]:
    start = flow["start_ns"]
    rest = whole - start
    every = cell.resolved.ways[flow["name"]]
    trip = _trip(flow["name"], cell)
    if trip >= rest:
        problem = (
            f"a round trip on its way takes {_time(trip)}, but the run ends {_time(rest)} after its start"
        )
        yield LintMessage(f"flow.{name}", f"{problem}: nothing is ever answered")
        return
    if trip >= FAR_NS and flow["load"]["kind"] != "bundles":  # whose timers the contact plan sets
        yield from _far(name, flow, trip)
    key = f"flow.{name}.load"
    longest = max(_times(flow["load"]), default=0)
    if longest > whole:  # flows that begin late and are cut off with the others are usual
        yield LintMessage(key, f"found {_time(longest)}, but the run lasts {_time(whole)}")
    for side, (way, size) in enumerate(_sizes(flow["load"]).items()):
        rates = [[hop.rate.bit_s for hop in one[side] if hop.rate is not None] for one in every]
        least = size * 8 * 10**9 // max(map(min, rates)) if all(rates) else 0
        if least > rest:
            what = f"found {_bytes(size)} {way}, which take {_time(least)} or longer at the rate of the path"
            yield LintMessage(key, f"{what}, but the run ends {_time(rest)} after its start")
            return


def _trip(flow: str, cell: Cell) -> int:
    """The shortest round trip of a flow."""
    every = cell.resolved.ways[flow]
    return min(sum(hop.delay_min_ns for hops in way for hop in hops) for way in every)


def _far(name: str, flow: FlowSpec, trip: int) -> Iterator[LintMessage]:
    """Timers of QUIC that expire before an answer can come."""
    transport = flow["transport"]
    if transport["kind"] != "quic":
        return
    told = 'did you mean quic.profile = "deep-space"?'
    idle, first = transport["idle_timeout_ns"], 3 * transport["initial_rtt_ns"]
    if idle is not None and max(idle, 3 * first) < trip:
        ends = (
            f"found {_time(idle)}, and a round trip takes {_time(trip)}: no connection lasts until an answer"
        )
        yield LintMessage(f"flow.{name}.quic.idle_timeout", f"{ends}; {told}")
    # Expiries at first (2^k - 1): RFC 9002 sections 6.2.1 and 6.2.2, an initial RTT whose variation is its half.
    times = 0
    while times <= MOST_BACKOFF and first * (2 ** (times + 1) - 1) < trip:
        times += 1
    if times > 1:
        again = f"a round trip takes {_time(trip)}: the first packets are sent again {times} times before an answer"
        yield LintMessage(f"flow.{name}.quic.initial_rtt", f"found {_time(first // 3)}, and {again}; {told}")


def _times(load: LoadSpec) -> Iterable[int]:
    """How long a load is to last, as far as it says."""
    if load["kind"] == "perf":
        amounts = [stream["amount"] for stream in load["streams"]]
        return [amount["duration_ns"] for amount in amounts if amount["mode"] == "time"]
    return [] if load["kind"] == "page" or load["kind"] == "bundles" else [load["duration_ns"]]


def _sizes(load: LoadSpec) -> dict[str, int]:
    """Bytes of a load of given size, each way."""
    amounts = [s["amount"] for s in load["streams"]] if load["kind"] == "perf" else []
    sized = [amount for amount in amounts if amount["mode"] == "data"]
    return {
        "up": sum(amount["up_bytes"] for amount in sized),
        "down": sum(amount["down_bytes"] for amount in sized),
    }


def _time(ns: int) -> str:
    """To three digits, in the unit a person would use."""
    for unit, size in (("h", 3600 * 10**9), ("min", 60 * 10**9), ("s", 10**9), ("ms", 10**6)):
        if ns >= size:
            return f"{ns / size:,.0f} {unit}" if ns >= 1000 * size else f"{ns / size:.3g} {unit}"
    return str(Duration(ns))


def _bytes(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:,.4g} {unit}"
    return f"{size} B"
