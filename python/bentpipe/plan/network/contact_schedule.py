"""Links that follow a contact plan: in use during a contact, at its rate and light time.

The contact plan becomes handovers of the links between its nodes, so that no other module depends on it. While a link
is down, packets wait in the queue of its transmitter, and store-and-forward nodes keep packets without a route.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bentpipe.plan.network.graph import layout
from bentpipe.scenario.errors import ScenarioError, encoding_error, from_pydantic, syntax_error
from bentpipe.scenario.input_file import parse_json, parse_toml, read_input_text
from bentpipe.scenario.link.direction import Delay, Direction, LinkRate
from bentpipe.scenario.link.handover import DirectionUpdate, GraphHandover, PathHandover
from bentpipe.scenario.network.contact_plan import ContactPlan
from bentpipe.scenario.quantities import Duration, Rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bentpipe.plan.input_files import Files
    from bentpipe.scenario.model import Scenario
    from bentpipe.scenario.network.topology import Access

__all__ = ["apply_contact_plan"]

Pair = tuple[str, str]
Interval = tuple[int, int, int]
"""Start in ns, stop in ns, and a rate in bit/s or a light time in ns."""


@dataclass
class _Schedule:
    """Contacts and light times by pair of nodes, in order of time."""

    contacts: dict[Pair, list[Interval]] = field(default_factory=lambda: defaultdict(list))
    light_times: dict[Pair, list[Interval]] = field(default_factory=lambda: defaultdict(list))


def apply_contact_plan(scenario: Scenario, files: Files) -> Scenario:
    """Return the scenario with the contact plan as handovers of links; unchanged if it has none.

    Raises:
        ScenarioError: no such plan, or a plan without contacts of these links.
    """
    topology = scenario.path or scenario.graph
    if topology is None or topology.contacts is None:
        return scenario
    key = "path.contacts" if scenario.path is not None else "graph.contacts"
    schedule = _schedule(_read(topology.contacts.plan, scenario, files, key), key)
    ends = {edge.name: (edge.client_side, edge.server_side) for edge in layout(scenario)[1]}
    links: Sequence[Access] = (
        scenario.path.segment if scenario.path else scenario.graph.link if scenario.graph else ()
    )
    new_links: list[Any] = []
    handovers: list[Any] = []
    keeps_in_flight = topology.contacts.in_flight == "keep"
    for link in links:
        name: str = link.name  # type: ignore[attr-defined]
        pair, reverse = ends[name], ends[name][::-1]
        up, down = schedule.contacts.get(pair, []), schedule.contacts.get(reverse, [])
        if not up and not down:
            new_links.append(link)
            continue
        if [contact[:2] for contact in up] != [contact[:2] for contact in down]:
            text = (
                f"contacts from {pair[0]} to {pair[1]} and back differ in time; expected equal times, as "
                "both = true makes them"
            )
            raise ScenarioError([(key, text)])
        light_times = (schedule.light_times.get(pair, []), schedule.light_times.get(reverse, []))
        scheduled = _ScheduledLink(name, link, (up, down), light_times, key)
        new_links.append(scheduled.link())
        for keys in scheduled.handovers(scenario.duration.ns, keeps_in_flight=keeps_in_flight):
            if scenario.path is not None:
                handovers.append(PathHandover(segment=name, **keys))
            else:
                handovers.append(GraphHandover(to=name, **keys))
    if not handovers and new_links == list(links):
        nodes = sorted({node for pair in schedule.contacts for node in pair})
        text = (
            f"no link is between two nodes of the plan ({', '.join(nodes)}); expected one of: {_pairs(ends)}"
        )
        raise ScenarioError([(key, text)])
    member = "segment" if scenario.path is not None else "link"
    update = {member: new_links, "handover": [*topology.handover, *handovers]}
    table = "path" if scenario.path is not None else "graph"
    return scenario.model_copy(update={table: topology.model_copy(update=update)})


def _pairs(ends: dict[str, Pair]) -> str:
    return ", ".join(f"{a} and {b}" for a, b in ends.values())


class _ScheduledLink:
    """A link and its contacts and light times, each up and down."""

    def __init__(
        self,
        name: str,
        link: Access,
        contacts: tuple[list[Interval], ...],
        light_times: tuple[list[Interval], ...],
        key: str,
    ) -> None:
        self.base, self.contacts, self.light_times = link, contacts, light_times
        directions = [link.resolve_direction("up"), link.resolve_direction("down")]
        self.takes_rate = [one.rate is None and one.trace is None and one.acm is None for one in directions]
        """Whether each direction takes its rate from the plan."""
        self.takes_delay = [one.delay is None for one in directions]
        """Whether each direction takes its delay from the plan."""
        for side, takes_delay in enumerate(self.takes_delay):
            if takes_delay and self._light_time(side, contacts[side][0][0]) is None:
                text = (
                    f"{name} has no delay, and the plan has no light time at its first contact; expected "
                    "a range, or owlt"
                )
                raise ScenarioError([(key, text)])

    def _light_time(self, side: int, at: int) -> int | None:
        return next((light for start, stop, light in self.light_times[side] if start <= at < stop), None)

    def link(self) -> Access:
        """Return the link with rate and light time of its first contact, unless it has its own."""
        update: dict[str, Direction] = {}
        for side, name in enumerate(("up", "down")):
            direction: Direction = getattr(self.base, name) or Direction()
            start, _, rate = self.contacts[side][0]
            keys: dict[str, object] = {}
            if self.takes_rate[side]:
                keys["rate"] = LinkRate(constant=Rate(rate))
            if self.takes_delay[side]:
                keys["delay"] = Delay(constant=Duration(self._light_time(side, start) or 0))
            update[name] = direction.model_copy(update=keys) if keys else direction
        return self.base.model_copy(update=update)

    def handovers(self, duration_ns: int, *, keeps_in_flight: bool) -> Iterator[dict[str, Any]]:
        """Yield the keys of a handover for each gap between contacts and each new rate or light time."""
        contacts = self.contacts[0]
        stops = [0, *(stop for _, stop, _ in contacts)]
        starts = [*(start for start, _, _ in contacts), duration_ns + 10**9]
        for number, (stop, start) in enumerate(zip(stops, starts, strict=True)):
            if start > stop and stop < duration_ns:
                policy = {} if keeps_in_flight or not number else {"in_flight": "drop"}
                yield {"at": Duration(stop), "gap": Duration(start - stop), "queued": "hold", **policy}
        updates: dict[int, list[dict[str, object]]] = defaultdict(lambda: [{}, {}])
        for side in (0, 1):
            if self.takes_rate[side]:
                for before, after in itertools.pairwise(self.contacts[side]):
                    if after[2] != before[2]:
                        updates[after[0]][side]["rate"] = Rate(after[2])
            if self.takes_delay[side]:
                first = self.contacts[side][0][0]
                current = self._light_time(side, first)
                for start, _, light in self.light_times[side]:
                    if start > first and light != current:
                        updates[start][side]["delay"] = Duration(light)
                    current = light if start > first else current
        for at, (up, down) in sorted(updates.items()):
            if at < duration_ns:
                yield {"at": Duration(at), "up": DirectionUpdate(**up), "down": DirectionUpdate(**down)}  # type: ignore[arg-type]


def _read(name: str, scenario: Scenario, files: Files, key: str) -> ContactPlan:
    """Return the contact plan of a file, or of ``[dtn]``. Raises ScenarioError."""
    if name == "dtn":
        if scenario.dtn is None:
            raise ScenarioError([(key, 'found "dtn", which requires [dtn]; expected it, or a file')])
        return scenario.dtn
    plan: ContactPlan = files.read_once(("contacts", name), lambda: _read_file(name, files, key))
    return plan


def _read_file(name: str, files: Files, key: str) -> ContactPlan:
    path = files.folder / name
    if path.suffix not in (".toml", ".json"):
        text = f'found "{name}", expected a contact plan in TOML or JSON (docs/reference/dtn.md), or "dtn"'
        raise ScenarioError([(key, text)])
    try:
        text = read_input_text(path)
    except UnicodeDecodeError as error:
        raise ScenarioError([(key, f"{name}: {encoding_error(error)}")]) from None
    except OSError as error:
        raise ScenarioError([(key, f'found "{name}", which cannot be read: {error.strerror}')]) from None
    try:
        data = parse_toml(text) if path.suffix == ".toml" else parse_json(text)
    except ValueError as error:
        raise ScenarioError(
            [(key, f"{name} is not {path.suffix[1:].upper()}: {syntax_error(error)}")]
        ) from None
    try:
        return ContactPlan.model_validate(data)
    except ValidationError as error:
        raise from_pydantic(error, data, name) from None


def _schedule(plan: ContactPlan, key: str) -> _Schedule:
    """Index a contact plan by pair of nodes. Raises ScenarioError for empty or overlapping intervals."""
    spec, schedule = plan.spec(), _Schedule()
    for contact in spec["contacts"]:
        interval = (contact["start_ns"], contact["stop_ns"], contact["rate_bit_s"])
        schedule.contacts[contact["from"], contact["to"]].append(interval)
    listed = {(one["from"], one["to"]) for one in spec["ranges"]}
    for one in spec["ranges"]:
        interval = (one["start_ns"], one["stop_ns"], one["owlt_ns"])
        schedule.light_times[one["from"], one["to"]].append(interval)
        if one["implies_reverse"] and (one["to"], one["from"]) not in listed:
            schedule.light_times[one["to"], one["from"]].append(interval)
    for kind, by_pair in (("contact", schedule.contacts), ("range", schedule.light_times)):
        for (start, end), intervals in by_pair.items():
            intervals.sort()
            empty = next((interval for interval in intervals if interval[1] <= interval[0]), None)
            if empty is not None:
                text = f"a {kind} from {start} to {end} stops at {Duration(empty[1])}, not after its start"
                raise ScenarioError([(key, text)])
            for before, after in itertools.pairwise(intervals):
                if after[0] < before[1]:
                    text = f"{kind}s from {start} to {end} overlap at {Duration(after[0])}, expected one at a time"
                    raise ScenarioError([(key, text)])
    return schedule
