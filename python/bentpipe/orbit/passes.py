"""A contact plan of a constellation: passes over ground stations, links between satellites."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from bentpipe.metrics.format import CommandOutput, TextTable
from bentpipe.orbit.summary import instant
from bentpipe.plan.network import constellation_routes
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantities import Duration, Rate, UnitError
from bentpipe.scenario.toml_writer import dumps, flat
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.orbit.query import RouteQuery

__all__ = ["Rates", "contact_plan", "write"]

Some = TypeVar("Some")


@dataclass(frozen=True)
class Rates:
    """What contacts carry; a place sends ``up`` and a satellite ``down``, satellites ``across``."""

    up: Rate
    down: Rate
    across: Rate
    tolerance: Duration
    """A light time that changes by more within a pass is said anew."""

    @classmethod
    def parse(cls, up: str, down: str, across: str, tolerance: str) -> Rates:
        """Of texts. Raises ScenarioError, by the command's option."""
        said: dict[str, Any] = {}
        for option, text in (("--up", up), ("--down", down), ("--across", across)):
            said[option] = _parsed(Rate, option, text)
        length: Duration = _parsed(Duration, "--tolerance", tolerance)
        return cls(said["--up"], said["--down"], said["--across"], length)


def _parsed(kind: type[Any], option: str, text: str) -> Any:
    try:
        return kind.parse(text)
    except UnitError as error:
        raise ScenarioError([(option, str(error))]) from None


def contact_plan(question: RouteQuery, rates: Rates) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The tables of a contact plan (``scenario/contact_plan``), and the passes that it is made of.

    Raises:
        ScenarioError: what is wrong with the question, or too many passes.
    """
    asked = constellation_routes.route_request(question.orbit, question.duration.ns, question.folder)["orbit"]
    stations = _stations(asked["from"], asked["to"])
    spec = {
        key: asked[key]
        for key in ("constellation", "start_unix_ns", "duration_ns", "step_ns", "reach", "links")
    }
    try:
        found = engine.orbit_passes(spec | {"stations": stations, "tolerance_ns": rates.tolerance.ns})
    except ValueError as error:
        raise ScenarioError([("", str(error))], "orbit") from None
    satellites = [_name(name, "sat-") for name in found["names"]]
    places = [_name(site["name"], "place-") for site in stations]
    contacts: list[dict[str, Any]] = []
    ranges: list[dict[str, Any]] = []
    for one in found["passes"]:
        a, b = (_end(one[key], places, satellites) for key in ("a", "b"))
        ground = "station" in one["a"]
        forth, back = (rates.up, rates.down) if ground else (rates.across, rates.across)
        when = {"start": _time(one["start_ns"]), "stop": _time(one["stop_ns"])}
        if forth == back:
            contacts.append({"from": a, "to": b, **when, "rate": str(forth), "both": True})
        else:
            contacts.append({"from": a, "to": b, **when, "rate": str(forth)})
            contacts.append({"from": b, "to": a, **when, "rate": str(back)})
        ranges += [
            {"from": a, "to": b, "start": _time(start), "stop": _time(stop), "owlt": _time(owlt)}
            for start, stop, owlt in one["ranges"]
        ]
    title = f"{', '.join(places)} under {question.orbit.constellation.title}"
    plan = {"title": title, "epoch": instant(found["start_unix_ns"]), "contact": contacts, "range": ranges}
    return plan, found


def write(question: RouteQuery, rates: Rates, file: Path) -> CommandOutput:
    """Writes the contact plan of a constellation as TOML or JSON, by the file's name, and says what is in it.

    Raises:
        ScenarioError: what is wrong with the question, or nothing is ever in reach.
    """
    if file.suffix not in (".toml", ".json"):
        raise ScenarioError([("--out", f'found "{file}", expected a name that ends with .toml or .json')])
    plan, found = contact_plan(question, rates)
    if not plan["contact"]:
        raise ScenarioError([("", "nothing is in reach at two looks in a row: no contacts")], "orbit")
    text = _toml(plan) if file.suffix == ".toml" else json.dumps(plan, indent=1, ensure_ascii=False) + "\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, text.encode())
    stations = _stations(question.orbit.from_, question.orbit.to)
    rows = []
    for number, place in enumerate(stations):
        own = [one for one in found["passes"] if one["a"] == {"station": number}]
        lengths = [(one["stop_ns"] - one["start_ns"]) / 1e9 for one in own]
        rows.append(
            {
                "place": str(place),
                "passes": len(own),
                "satellites": len({json.dumps(one["b"]) for one in own}),
                "shortest, s": min(lengths, default=None),
                "longest, s": max(lengths, default=None),
            }
        )
    links = sum("satellite" in one["a"] for one in found["passes"])
    data = {
        "plan": str(file),
        "title": plan["title"],
        "epoch": plan["epoch"],
        "contacts": sum(2 if one.get("both") else 1 for one in plan["contact"]),
        "ranges": len(plan["range"]),
        "links": links,
        "places": [{key.replace(", s", "_s"): value for key, value in row.items()} for row in rows],
    }
    head = f"{plan['title']}: {question.duration} from {plan['epoch']}, a look every {question.orbit.step}"
    tail = f"\n{data['contacts']:,} contacts, {links:,} times that satellites see each other: {file}"
    return CommandOutput(
        data, (head, "", TextTable("Passes", rows), tail, f"bentpipe dtn plan {file} --out DIR draws it")
    )


def _toml(plan: Mapping[str, Any]) -> str:
    head = dumps({key: value for key, value in plan.items() if not isinstance(value, list)})
    return "\n".join([head, flat("contact", plan["contact"]), flat("range", plan["range"])])


def _stations(first: Some, others: Sequence[Some]) -> list[Some]:
    """Each place once: of a single one the question has two."""
    found = [first]
    found += [one for one in others if one not in found]
    return found


def _end(end: Mapping[str, int], places: list[str], satellites: list[str]) -> str:
    return places[end["station"]] if "station" in end else satellites[end["satellite"]]


def _name(name: str, before: str) -> str:
    """As a node is called: without blanks, and no number, which would be another node's."""
    whole = "-".join(name.split())
    return f"{before}{whole}" if whole.isdigit() or not whole else whole


def _time(ns: int) -> str:
    return str(Duration(ns)) if ns else "0 s"
