"""Lint warnings: settings of a plan that are valid but probably wrong. `check`, `run` and Python report them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.cost import estimate_cost
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
    from bentpipe.scenario.link.direction import Direction
    from bentpipe.scenario.model import Scenario
    from bentpipe.scenario.network.topology import Access

__all__ = ["LONG_NS", "LintMessage", "LintWarning", "lint_pages", "lint_plan"]

LONG_NS = 86_400 * 10**9
"""One day. Only runs with a round-trip time above :data:`FAR_NS` are longer; published transfers take hours."""

FAR_NS = 60 * 10**9
"""Round-trip time of one minute. It exceeds any path on or around Earth and the initial timers of transports."""

MOST_BACKOFF = 16
"""Largest number of doublings of a probe timeout."""


class LintWarning(UserWarning):
    """Python warning with the text of a :class:`LintMessage`."""


@dataclass(frozen=True, slots=True)
class LintMessage:
    """Message about a key of a scenario."""

    key: str
    text: str

    def line(self, source: str) -> str:
        """Return the message with key and source file."""
        return f"{source}: {self.key}: {self.text}"


def lint_plan(plan: Plan) -> tuple[LintMessage, ...]:
    """Return the lint warnings of all cells, one for each key, from the first cell that has it."""
    messages: dict[str, LintMessage] = {}
    of_cells = [message for cell in plan.cells for message in _lint_cell(cell)]
    for message in [*_lint_seeds(plan), *_lint_sweep(plan), *of_cells, *lint_pages(plan)]:
        messages.setdefault(message.key, message)
    return tuple(messages.values())


def lint_pages(plan: Plan) -> tuple[LintMessage, ...]:
    """Return the notes on incomplete HAR files of pages, one for each key."""
    files = Files(plan.document.folder)
    messages: dict[str, LintMessage] = {}
    for cell in plan.cells:
        for key, text in har_notes(cell.scenario, files).items():
            messages.setdefault(key, LintMessage(key, text))
    return tuple(messages.values())


def _lint_seeds(plan: Plan) -> Iterator[LintMessage]:
    if plan.seeds > 1 and all(len(cell.seeds) == 1 for cell in plan.cells):
        why = "no part of the scenario is random: all seeds give the same run, so one is executed"
        yield LintMessage("seeds", f"found {plan.seeds}, but {why}")


def _lint_sweep(plan: Plan) -> Iterator[LintMessage]:
    """Yield a message for each axis of the sweep whose values all give the same runs."""
    axes = axes_of(plan.document.data.get("sweep"))
    specs = [cell.resolved.spec for cell in plan.cells]
    step = len(specs)  # distance between cells of consecutive values; the last axis varies fastest
    for key, values in axes.items():
        step //= len(values)
        indices = range(len(specs))
        if len(values) > 1 and all(
            specs[index] == specs[index - index // step % len(values) * step] for index in indices
        ):
            found = f"found {len(values)} values, and all give the same run"
            yield LintMessage(
                f"sweep.{key}", f"{found}: another key overrides this one, or no component uses it"
            )


def _lint_cell(cell: Cell) -> Iterator[LintMessage]:
    spec = cell.resolved.spec
    duration_ns = spec["duration_ns"]
    if duration_ns > LONG_NS and all(_min_rtt_ns(name, cell) < FAR_NS for name in cell.resolved.ways):
        yield LintMessage("duration", f"found {_format_time(duration_ns)}, which is longer than a day")
    for name, flow in representative_flows(spec):
        yield from _lint_flow(name, flow, cell, duration_ns)
    yield from _lint_cost(cell)
    yield from _lint_handovers(cell.scenario, duration_ns)
    yield from _lint_buffers(spec, "path" if cell.scenario.path is not None else "graph")
    yield from _lint_channels(cell.scenario)
    if "dtn" in spec and spec["dtn"] is not None:
        yield from (LintMessage(key, text) for key, text in key_mismatches(spec["dtn"]))
    yield from _lint_orbit(cell.scenario)


def _lint_cost(cell: Cell) -> Iterator[LintMessage]:
    """Yield a message for each limit below the estimated cost of a run."""
    cost, limits = estimate_cost(cell.resolved), cell.scenario.limits
    if cost.events > limits.events:
        text = (
            f"found {limits.events:_}, and a run takes about {cost.events:,.0f} events; it ends at the limit"
        )
        yield LintMessage("limits.events", text)
    if cost.memory_bytes > limits.memory.bytes:
        text = f"found {limits.memory}, and a run takes about {cost.memory_bytes / 1e9:,.1f} GB; it ends at the limit"
        yield LintMessage("limits.memory", text)


def _lint_orbit(scenario: Scenario) -> Iterator[LintMessage]:
    other_tables = {key: value for key, value in scenario.to_dict().items() if key != "orbit"}
    if scenario.orbit is not None and not _uses_orbit(other_tables):
        yield LintMessage(
            "orbit",
            'no component uses it: no delay = { orbit = "before-last-hop" }, no channel and no handover',
        )


def _uses_orbit(value: object) -> bool:
    """Return whether a key or value is "orbit", except in names and titles."""
    if isinstance(value, Mapping):
        settings = [inner for key, inner in value.items() if key not in ("name", "title")]
        return "orbit" in value or _uses_orbit(settings)
    return value == "orbit" or (isinstance(value, list) and any(_uses_orbit(inner) for inner in value))


def _lint_channels(scenario: Scenario) -> Iterator[LintMessage]:
    for key, access in _links(scenario):
        for side in SIDES:
            direction = access.resolve_direction(side)
            channel = direction.channel
            channel_key = f"{key}.{side}.channel"
            if channel is not None and (table := _error_table(direction)) is not None:
                yield LintMessage(
                    channel_key,
                    f"no effect: {key}.{side}.{table}.block_error_rate determines the errors; remove one of them",
                )
            text = elevation_note(channel, channel_key) if channel is not None else None
            if text is not None:
                yield LintMessage(f"{channel_key}.elevation", text)


def _error_table(direction: Direction) -> str | None:
    """Return the table whose block error rates replace the channel; None if a scheduler still reads the channel."""
    if direction.nr is not None and direction.nr.block_error_rate is not None:
        return "nr"
    layer, scheduler = direction.link_layer, direction.scheduler
    if layer is None or layer.block_error_rate is None or (scheduler is not None and scheduler.uses_channel):
        return None
    return "link_layer"


def _links(scenario: Scenario) -> Iterator[tuple[str, Access]]:
    """Yield the segments, links and accesses of a scenario with their keys."""
    for segment in scenario.path.segment if scenario.path is not None else ():
        yield f"path.{segment.name}", segment
    for link in scenario.graph.link if scenario.graph is not None else ():
        yield f"graph.{link.name}", link
    for flow in scenario.flow:
        if flow.access is not None:
            yield f"flow.{flow.name}.access", flow.access


def _lint_handovers(scenario: Scenario, duration_ns: int) -> Iterator[LintMessage]:
    for number, handover in enumerate(handovers_of(scenario)):
        if handover.at != "orbit" and handover.at.ns >= duration_ns:
            root = "path" if scenario.path is not None else "graph"
            text = f"found {handover.at}, but the run lasts {_format_time(duration_ns)}: the handover never happens"
            yield LintMessage(f"{root}.{handover.name or f'handover[{number + 1}]'}.at", text)


def _lint_buffers(spec: RunSpec, root: str) -> Iterator[LintMessage]:
    """Yield a message for each queue smaller than the buffer that a node sends to it when the link is up again."""
    buffers = {
        node["name"]: size
        for node in spec["graph"]["nodes"]
        if (size := node.get("store_and_forward_bytes")) is not None
    }
    changes = spec["graph"].get("changes", []) if buffers else []
    interrupted = {
        link["link"] for event in changes for link in event.get("links", []) if not link["enabled"]
    }
    for link in spec["graph"]["links"]:
        for side, start in (("up", link["client_side"]), ("down", link["server_side"])):
            stages = link["up"] if side == "up" else link["down"]
            bounds = [_queue_bytes(stage) for stage in stages if stage["kind"] == "transmit"]
            bound = next((size for size in bounds if size is not None), None)
            if link["name"] in interrupted and bound is not None and buffers.get(start, 0) > bound:
                burst = f"{_format_bytes(buffers[start])}, which leave in one burst when the link returns"
                text = f"{start} may hold {burst}"
                yield LintMessage(
                    f"{root}.{link['name']}.{side}.queue",
                    f"found {_format_bytes(bound)}, and {text}: the rest overflows the queue",
                )


def _queue_bytes(stage: TransmitStageSpec) -> int | None:
    """Return the bound of a queue in bytes; None for another bound."""
    queue = stage["queue"]
    if queue["kind"] == "per_user" or queue["kind"] == "fq_codel":
        return None
    limit = queue["limit"]
    return limit["bytes"] if limit is not None and "bytes" in limit else None


def _lint_flow(name: str, flow: FlowSpec, cell: Cell, duration_ns: int) -> Iterator[LintMessage]:
    start = flow["start_ns"]
    remaining_ns = duration_ns - start
    yield from _lint_direction(name, flow["load"])
    routes = cell.resolved.ways[flow["name"]]
    rtt_ns = _min_rtt_ns(flow["name"], cell)
    if rtt_ns >= remaining_ns:
        problem = (
            f"a round trip takes {_format_time(rtt_ns)}, "
            f"but the run ends {_format_time(remaining_ns)} after its start"
        )
        yield LintMessage(f"flow.{name}", f"{problem}: no response arrives")
        return
    if rtt_ns >= FAR_NS and flow["load"]["kind"] != "bundles":  # the contact plan sets their timers
        yield from _lint_timers(name, flow, rtt_ns)
    key = f"flow.{name}.load"
    longest_ns = max(_durations(flow["load"]), default=0)
    if longest_ns > duration_ns:  # flows that start during the run and end with it are common
        yield LintMessage(
            key, f"found {_format_time(longest_ns)}, but the run lasts {_format_time(duration_ns)}"
        )
    for side, (direction, size) in enumerate(_data_bytes(flow["load"]).items()):
        rates = [[hop.rate.bit_s for hop in route[side] if hop.rate is not None] for route in routes]
        transfer_ns = size * 8 * 10**9 // max(map(min, rates)) if all(rates) else 0
        if transfer_ns > remaining_ns:
            found = (
                f"found {_format_bytes(size)} {direction}, which take {_format_time(transfer_ns)} or longer "
                "at the rate of the path"
            )
            yield LintMessage(key, f"{found}, but the run ends {_format_time(remaining_ns)} after its start")
            return


_NAMED_DIRECTIONS = {"download": "down", "upload": "up"}
"""Words in the name of a flow that state a direction."""


def _lint_direction(name: str, load: LoadSpec) -> Iterator[LintMessage]:
    """Yield a message if the name of a flow states the other direction than its data."""
    if load["kind"] != "perf":
        return
    directions = {"up" if way == "up" else "down" for way in _data_directions(load)}
    for word, stated in _NAMED_DIRECTIONS.items():
        if word in name.casefold() and directions and stated not in directions:
            (found,) = directions
            text = f'the data goes {found}, and the name is "{name}"; did you mean direction = "{stated}"?'
            yield LintMessage(f"flow.{name}.direction", text)


def _data_directions(load: LoadSpec) -> Iterator[str]:
    """Yield the direction of each amount of data of a load."""
    for stream in load["streams"] if load["kind"] == "perf" else ():
        amount = stream["amount"]
        if amount["mode"] == "time":
            yield amount["direction"]
        elif amount["mode"] == "data":
            yield from (way for way, size in _data_bytes(load).items() if size)


def _min_rtt_ns(flow: str, cell: Cell) -> int:
    """Return the smallest round-trip propagation delay of a flow over all routes."""
    routes = cell.resolved.ways[flow]
    return min(sum(hop.delay_min_ns for hops in route for hop in hops) for route in routes)


def _lint_timers(name: str, flow: FlowSpec, rtt_ns: int) -> Iterator[LintMessage]:
    """Yield a message for each timer of QUIC that expires before a response can arrive."""
    transport = flow["transport"]
    if transport["kind"] != "quic":
        return
    hint = 'did you mean quic.profile = "deep-space"?'
    idle_ns, first_pto_ns = transport["idle_timeout_ns"], 3 * transport["initial_rtt_ns"]
    if idle_ns is not None and max(idle_ns, 3 * first_pto_ns) < rtt_ns:
        problem = (
            f"found {_format_time(idle_ns)}, and a round trip takes {_format_time(rtt_ns)}: "
            "every connection ends before a response"
        )
        yield LintMessage(f"flow.{name}.quic.idle_timeout", f"{problem}; {hint}")
    # Expiries at first_pto_ns (2^k - 1): RFC 9002 sections 6.2.1 and 6.2.2, with an RTT variation of half the RTT.
    expiries = 0
    while expiries <= MOST_BACKOFF and first_pto_ns * (2 ** (expiries + 1) - 1) < rtt_ns:
        expiries += 1
    if expiries > 1:
        problem = (
            f"a round trip takes {_format_time(rtt_ns)}: the first packets are retransmitted {expiries} times "
            "before a response"
        )
        yield LintMessage(
            f"flow.{name}.quic.initial_rtt", f"found {_format_time(first_pto_ns // 3)}, and {problem}; {hint}"
        )


def _durations(load: LoadSpec) -> Iterable[int]:
    """Return the configured durations of a load in ns."""
    if load["kind"] == "perf":
        amounts = [stream["amount"] for stream in load["streams"]]
        return [amount["duration_ns"] for amount in amounts if amount["mode"] == "time"]
    return [] if load["kind"] == "page" or load["kind"] == "bundles" else [load["duration_ns"]]


def _data_bytes(load: LoadSpec) -> dict[str, int]:
    """Return the bytes of a load of fixed size in each direction."""
    amounts = [stream["amount"] for stream in load["streams"]] if load["kind"] == "perf" else []
    sized = [amount for amount in amounts if amount["mode"] == "data"]
    return {
        "up": sum(amount["up_bytes"] for amount in sized),
        "down": sum(amount["down_bytes"] for amount in sized),
    }


def _format_time(ns: int) -> str:
    """Return a time with three digits in the largest suitable unit."""
    for unit, size in (("h", 3600 * 10**9), ("min", 60 * 10**9), ("s", 10**9), ("ms", 10**6)):
        if ns >= size:
            return f"{ns / size:,.0f} {unit}" if ns >= 1000 * size else f"{ns / size:.3g} {unit}"
    return str(Duration(ns))


def _format_bytes(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:,.4g} {unit}"
    return f"{size} B"
