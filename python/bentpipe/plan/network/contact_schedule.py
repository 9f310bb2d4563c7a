"""Links that follow a contact plan: up while the plan has a contact, at its rate and light time.

What the plan says becomes hand-overs of the links between its nodes, so that everything behind this module knows of
no plan. While a link is down, what waits for its transmitter stays there, and nodes that hold hold what finds no way.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bentpipe.plan.network.graph import layout
from bentpipe.scenario.errors import ScenarioError, encoding_error, from_pydantic
from bentpipe.scenario.input_file import parse_json, parse_toml, read_input_text
from bentpipe.scenario.link.handover import DirectionUpdate, GraphHandover, PathHandover
from bentpipe.scenario.network.contact_plan import ContactPlan
from bentpipe.scenario.network.topology import Delay, Direction, LinkRate
from bentpipe.scenario.quantities import Duration, Rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bentpipe.plan.input_files import Files
    from bentpipe.scenario.model import Scenario
    from bentpipe.scenario.network.topology import Access

__all__ = ["apply_contact_plan"]

Pair = tuple[str, str]
Span = tuple[int, int, int]
"""Start, stop, and a rate or a light time."""


@dataclass
class _Planned:
    contacts: dict[Pair, list[Span]] = field(default_factory=lambda: defaultdict(list))
    lights: dict[Pair, list[Span]] = field(default_factory=lambda: defaultdict(list))


def apply_contact_plan(scenario: Scenario, files: Files) -> Scenario:
    """The scenario with what its contact plan says as hand-overs of links; the same where it has none.

    Raises:
        ScenarioError: no plan there, or one that says nothing of these links.
    """
    top = scenario.path or scenario.graph
    if top is None or top.contacts is None:
        return scenario
    key = "path.contacts" if scenario.path is not None else "graph.contacts"
    plan = _planned(_read(top.contacts.plan, scenario, files, key), key)
    ends = {edge.name: (edge.client_side, edge.server_side) for edge in layout(scenario)[1]}
    links: Sequence[Access] = (
        scenario.path.segment if scenario.path else scenario.graph.link if scenario.graph else ()
    )
    made: list[Any] = []
    handovers: list[Any] = []
    kept = top.contacts.in_flight == "kept"
    for link in links:
        name: str = link.name  # type: ignore[attr-defined]
        there, back = ends[name], ends[name][::-1]
        up, down = plan.contacts.get(there, []), plan.contacts.get(back, [])
        if not up and not down:
            made.append(link)
            continue
        if [one[:2] for one in up] != [one[:2] for one in down]:
            text = (
                f"contacts from {there[0]} to {there[1]} and back are at other times; expected the same, as "
                "both = true makes them"
            )
            raise ScenarioError([(key, text)])
        one = _Link(name, link, (up, down), (plan.lights.get(there, []), plan.lights.get(back, [])), key)
        made.append(one.link())
        for words in one.handovers(scenario.duration.ns, kept=kept):
            if scenario.path is not None:
                handovers.append(PathHandover(segment=name, **words))
            else:
                handovers.append(GraphHandover(to=name, **words))
    if not handovers and made == list(links):
        nodes = sorted({node for pair in plan.contacts for node in pair})
        text = (
            f"no link is between two nodes of the plan ({', '.join(nodes)}); expected one of: {_pairs(ends)}"
        )
        raise ScenarioError([(key, text)])
    what = "segment" if scenario.path is not None else "link"
    new = top.model_copy(update={what: made, "handover": [*top.handover, *handovers]})
    return scenario.model_copy(update={"path" if scenario.path is not None else "graph": new})


def _pairs(ends: dict[str, Pair]) -> str:
    return ", ".join(f"{a} and {b}" for a, b in ends.values())


class _Link:
    """A link, and what the plan says of it."""

    def __init__(
        self,
        name: str,
        link: Access,
        contacts: tuple[list[Span], ...],
        lights: tuple[list[Span], ...],
        key: str,
    ) -> None:
        self.name, self.own, self.contacts = name, link, contacts
        ways = [link.toward("up"), link.toward("down")]
        self.rated = [way.rate is None and way.trace is None and way.acm is None for way in ways]
        """Whether the plan says the rate of each direction."""
        self.lit = [way.delay is None for way in ways]
        self.lights = lights
        for side, own in enumerate(self.lit):
            if own and self._light(side, contacts[side][0][0]) is None:
                text = (
                    f"{name} has no delay, and the plan no light time as its first contact begins; expected one: "
                    "a range, or owlt"
                )
                raise ScenarioError([(key, text)])

    def _light(self, side: int, at: int) -> int | None:
        return next((light for start, stop, light in self.lights[side] if start <= at < stop), None)

    def link(self) -> Access:
        """The link with the rate and the light time of its first contact, where it has none itself."""
        update: dict[str, Direction] = {}
        for side, which in enumerate(("up", "down")):
            own: Direction = getattr(self.own, which) or Direction()
            first = self.contacts[side][0]
            words: dict[str, object] = {}
            if self.rated[side]:
                words["rate"] = LinkRate(constant=Rate(first[2]))
            if self.lit[side]:
                words["delay"] = Delay(constant=Duration(self._light(side, first[0]) or 0))
            update[which] = own.model_copy(update=words) if words else own
        return self.own.model_copy(update=update)

    def handovers(self, whole_ns: int, *, kept: bool) -> Iterator[dict[str, Any]]:
        """When it goes and comes, and what it has from then on."""
        spans = self.contacts[0]
        ends = [0, *(stop for _, stop, _ in spans)]
        begins = [*(start for start, _, _ in spans), whole_ns + 10**9]
        for number, (end, begin) in enumerate(zip(ends, begins, strict=True)):
            if begin > end and end < whole_ns:
                fate = {} if kept or not number else {"in_flight": "lost"}
                yield {"at": Duration(end), "gap": Duration(begin - end), "waiting": "held", **fate}
        moves: dict[int, list[dict[str, object]]] = defaultdict(lambda: [{}, {}])
        for side in (0, 1):
            if self.rated[side]:
                for one, other in itertools.pairwise(self.contacts[side]):
                    if other[2] != one[2]:
                        moves[other[0]][side]["rate"] = Rate(other[2])
            if self.lit[side]:
                first = self.contacts[side][0][0]
                before = self._light(side, first)
                for start, _, light in self.lights[side]:
                    if start > first and light != before:
                        moves[start][side]["delay"] = Duration(light)
                    before = light if start > first else before
        for at, (up, down) in sorted(moves.items()):
            if at < whole_ns:
                yield {"at": Duration(at), "up": DirectionUpdate(**up), "down": DirectionUpdate(**down)}  # type: ignore[arg-type]


def _read(name: str, scenario: Scenario, files: Files, key: str) -> ContactPlan:
    """The plan of a file, or of ``[dtn]``. Raises ScenarioError."""
    if name == "dtn":
        if scenario.dtn is None:
            raise ScenarioError([(key, 'found "dtn", and there is no [dtn]; expected one, or a file')])
        return scenario.dtn
    found: ContactPlan = files.read_once(("contacts", name), lambda: _file(name, files, key))
    return found


def _file(name: str, files: Files, key: str) -> ContactPlan:
    path = files.folder / name
    if path.suffix not in (".toml", ".json"):
        text = f'found "{name}", expected a contact plan in TOML or JSON (docs/manual/dtn.md), or "dtn"'
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
        raise ScenarioError([(key, f"{name} is no {path.suffix[1:].upper()}: {error}")]) from None
    try:
        return ContactPlan.model_validate(data)
    except ValidationError as error:
        raise from_pydantic(error, data, name) from None


def _planned(plan: ContactPlan, key: str) -> _Planned:
    """Contacts and light times by pair of nodes, in order of time. Raises ScenarioError."""
    spec, found = plan.spec(), _Planned()
    for one in spec["contacts"]:
        found.contacts[one["from"], one["to"]].append((one["start_ns"], one["stop_ns"], one["rate_bit_s"]))
    own = {(one["from"], one["to"]) for one in spec["ranges"]}
    for one in spec["ranges"]:
        span = (one["start_ns"], one["stop_ns"], one["owlt_ns"])
        found.lights[one["from"], one["to"]].append(span)
        if one["implies_reverse"] and (one["to"], one["from"]) not in own:
            found.lights[one["to"], one["from"]].append(span)
    for what, pairs in (("contact", found.contacts), ("range", found.lights)):
        for (start, end), spans in pairs.items():
            spans.sort()
            wrong = next((span for span in spans if span[1] <= span[0]), None)
            if wrong is not None:
                text = f"a {what} from {start} to {end} stops at {Duration(wrong[1])}, not after its start"
                raise ScenarioError([(key, text)])
            for one, other in itertools.pairwise(spans):
                if other[0] < one[1]:
                    text = f"contacts from {start} to {end} overlap at {Duration(other[0])}, expected one at a time"
                    raise ScenarioError([(key, text.replace("contacts", f"{what}s"))])
    return found
