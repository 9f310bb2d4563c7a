"""Contact plan of a constellation: passes over ground stations, and links between satellites."""

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
    """Rates of contacts: of a place to a satellite (``up``), back (``down``), and between satellites (``across``)."""

    up: Rate
    down: Rate
    across: Rate
    tolerance: Duration
    """Maximum change of the light time within a pass before a new range."""

    @classmethod
    def parse(cls, up: str, down: str, across: str, tolerance: str) -> Rates:
        """Parse the rates and the tolerance.

        Raises:
            ScenarioError: a text is invalid, by the command's option.
        """
        rates: dict[str, Any] = {}
        for option, text in (("--up", up), ("--down", down), ("--across", across)):
            rates[option] = _parse(Rate, option, text)
        length: Duration = _parse(Duration, "--tolerance", tolerance)
        return cls(rates["--up"], rates["--down"], rates["--across"], length)


def _parse(kind: type[Any], option: str, text: str) -> Any:
    try:
        return kind.parse(text)
    except UnitError as error:
        raise ScenarioError([(option, str(error))]) from None


def contact_plan(query: RouteQuery, rates: Rates) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the tables of a contact plan (``scenario/contact_plan``), and its passes.

    Raises:
        ScenarioError: the query is invalid, or there are too many passes.
    """
    table = constellation_routes.route_request(query.orbit, query.duration.ns, query.folder)["orbit"]
    stations = _stations(table["from"], table["to"])
    spec = {
        key: table[key]
        for key in ("constellation", "start_unix_ns", "duration_ns", "step_ns", "visibility", "links")
    }
    try:
        result = engine.orbit_passes(spec | {"stations": stations, "tolerance_ns": rates.tolerance.ns})
    except ValueError as error:
        raise ScenarioError([("", str(error))], "orbit") from None
    satellites = [_name(name, "sat-") for name in result["names"]]
    places = [_name(site["name"], "place-") for site in stations]
    contacts: list[dict[str, Any]] = []
    ranges: list[dict[str, Any]] = []
    for one in result["passes"]:
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
    title = f"{', '.join(places)} under {query.orbit.constellation.title}"
    plan = {"title": title, "epoch": instant(result["start_unix_ns"]), "contact": contacts, "range": ranges}
    return plan, result


def write(query: RouteQuery, rates: Rates, file: Path) -> CommandOutput:
    """Write the contact plan of a constellation as TOML or JSON, by the file name, and summarise it.

    Raises:
        ScenarioError: the query is invalid, or nothing is ever in reach.
    """
    if file.suffix not in (".toml", ".json"):
        raise ScenarioError([("--out", f'found "{file}", expected a name that ends with .toml or .json')])
    plan, result = contact_plan(query, rates)
    if not plan["contact"]:
        raise ScenarioError([("", "no contacts: no satellite is in reach at two consecutive steps")], "orbit")
    text = _toml(plan) if file.suffix == ".toml" else json.dumps(plan, indent=1, ensure_ascii=False) + "\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, text.encode())
    stations = _stations(query.orbit.from_, query.orbit.to)
    rows = []
    for number, place in enumerate(stations):
        place_passes = [one for one in result["passes"] if one["a"] == {"station": number}]
        lengths = [(one["stop_ns"] - one["start_ns"]) / 1e9 for one in place_passes]
        rows.append(
            {
                "place": str(place),
                "passes": len(place_passes),
                "satellites": len({json.dumps(one["b"]) for one in place_passes}),
                "shortest, s": min(lengths, default=None),
                "longest, s": max(lengths, default=None),
            }
        )
    links = sum("satellite" in one["a"] for one in result["passes"])
    data = {
        "plan": str(file),
        "title": plan["title"],
        "epoch": plan["epoch"],
        "contacts": sum(2 if one.get("both") else 1 for one in plan["contact"]),
        "ranges": len(plan["range"]),
        "links": links,
        "places": [{key.replace(", s", "_s"): value for key, value in row.items()} for row in rows],
    }
    head = f"{plan['title']}: {query.duration} from {plan['epoch']}, time step {query.orbit.step}"
    tail = f"\n{data['contacts']:,} contacts and {links:,} visibility windows between satellites in {file}"
    return CommandOutput(
        data,
        (head, "", TextTable("Passes", rows), tail, f"bentpipe dtn plan {file} --out DIR draws the plan"),
    )


def _toml(plan: Mapping[str, Any]) -> str:
    head = dumps({key: value for key, value in plan.items() if not isinstance(value, list)})
    return "\n".join([head, flat("contact", plan["contact"]), flat("range", plan["range"])])


def _stations(first: Some, others: Sequence[Some]) -> list[Some]:
    """Return each place once: the query has a single place twice."""
    result = [first]
    result += [one for one in others if one not in result]
    return result


def _end(end: Mapping[str, int], places: list[str], satellites: list[str]) -> str:
    return places[end["station"]] if "station" in end else satellites[end["satellite"]]


def _name(name: str, before: str) -> str:
    """Return a node name: without blanks, and not a number, which would be another node's."""
    whole = "-".join(name.split())
    return f"{before}{whole}" if whole.isdigit() or not whole else whole


def _time(ns: int) -> str:
    return str(Duration(ns)) if ns else "0 s"
