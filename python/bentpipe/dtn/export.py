"""Contact plan in other forms: TOML, JSON, and ION commands where they can express it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bentpipe.dtn.summary import instant, nodes
from bentpipe.scenario.network.contact_plan import FOREVER_NS
from bentpipe.scenario.quantities import Duration, Rate
from bentpipe.scenario.toml_writer import dumps, flat
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bentpipe.dtn.contact_plan import CheckedPlan

__all__ = ["as_ion", "as_tables", "as_toml", "write"]

SECOND = 10**9


def write(plan: CheckedPlan, out: Path) -> list[Path]:
    """Write ``plan.toml``, ``plan.json`` and, where ION can express the plan, ``plan.ionrc``; return the paths.

    Args:
        plan: contact plan.
        out: directory.
    """
    tables = as_tables(plan)
    texts = {
        "plan.toml": as_toml(tables),
        "plan.json": json.dumps(tables, indent=1, ensure_ascii=False) + "\n",
    }
    ion = as_ion(plan)
    if ion is not None:
        texts["plan.ionrc"] = ion
    written = []
    for name, text in texts.items():
        write_atomic(out / name, text.encode())
        written.append(out / name)
    return written


def as_toml(tables: Mapping[str, Any]) -> str:
    """Return the tables as TOML."""
    plain = {key: value for key, value in tables.items() if not isinstance(value, list)}
    lists = (flat(key, value) for key, value in tables.items() if isinstance(value, list))
    return "\n".join(filter(None, (dumps(plain), *lists)))


def as_tables(plan: CheckedPlan) -> dict[str, Any]:
    """Return the plan as tables of ``ContactPlan``."""
    tables: dict[str, Any] = {}
    if plan.title:
        tables["title"] = plan.title
    epoch = instant(plan, 0)
    if epoch is not None:
        tables["epoch"] = epoch
    tables["contact"] = [_contact(entry) for entry in plan.spec["contacts"]]
    if plan.spec["ranges"]:
        tables["range"] = [_range(entry) for entry in plan.spec["ranges"]]
    if plan.statics:
        tables["route"] = [
            {key: value for key, value in (("at", at), ("to", to), ("via", via)) if value is not None}
            for at, to, via in plan.statics
        ]
    return tables


def _duration(ns: int) -> str:
    return str(Duration(ns)) if ns else "0 s"


def _contact(contact: Mapping[str, Any]) -> dict[str, Any]:
    table = {
        "from": contact["from"],
        "to": contact["to"],
        "start": _duration(contact["start_ns"]),
        "stop": _duration(contact["stop_ns"]),
        "rate": str(Rate(contact["rate_bit_s"])),
    }
    return table if contact["confidence"] == 1 else table | {"confidence": contact["confidence"]}


def _range(range_: Mapping[str, Any]) -> dict[str, Any]:
    table = {"from": range_["from"], "to": range_["to"], "start": _duration(range_["start_ns"])}
    if range_["stop_ns"] < FOREVER_NS:
        table["stop"] = _duration(range_["stop_ns"])
    table["owlt"] = _duration(range_["owlt_ns"])
    return table if range_["implies_reverse"] else table | {"one_way": True}


def as_ion(plan: CheckedPlan) -> str | None:
    """Return ION commands, or None where ION cannot express the plan.

    ION cannot express nodes without a number, and times, rates and light times that are no multiples of its units. A
    range that ION would interpret differently by the order of the numbers is written for each direction.
    """
    names = [
        entry[end] for kind in ("contacts", "ranges") for entry in plan.spec[kind] for end in ("from", "to")
    ]
    if not all(name.isascii() and name.isdigit() for name in names):
        return None
    times = [
        entry[key]
        for kind in ("contacts", "ranges")
        for entry in plan.spec[kind]
        for key in ("start_ns", "stop_ns")
    ]
    times += [entry["owlt_ns"] for entry in plan.spec["ranges"]]
    if any(ns % SECOND and ns != FOREVER_NS for ns in times) or any(
        entry["rate_bit_s"] % 8 for entry in plan.spec["contacts"]
    ):
        return None
    lines = []
    epoch = instant(plan, 0)
    if epoch is not None:
        lines.append(f"@ {epoch[:10].replace('-', '/')}-{epoch[11:19]}")
    stop = max((entry["stop_ns"] for entry in plan.spec["contacts"]), default=0)
    for entry in plan.spec["contacts"]:
        interval = f"+{entry['start_ns'] // SECOND} +{entry['stop_ns'] // SECOND}"
        suffix = "" if entry["confidence"] == 1 else f" {entry['confidence']:g}"
        lines.append(f"a contact {interval} {entry['from']} {entry['to']} {entry['rate_bit_s'] // 8}{suffix}")
    connected = {entry[end] for entry in plan.spec["contacts"] for end in ("from", "to")}
    lines += [
        f"a contact -1 -1 {node} {node} 0"
        for node in nodes(plan)
        if node.isdecimal() and node not in connected
    ]
    pairs = {(entry["from"], entry["to"]) for entry in plan.spec["ranges"]}
    for entry in plan.spec["ranges"]:
        stop_ns = min(entry["stop_ns"], max(stop, entry["start_ns"] + SECOND))
        interval = f"+{entry['start_ns'] // SECOND} +{stop_ns // SECOND}"
        owlt = entry["owlt_ns"] // SECOND
        a, b = entry["from"], entry["to"]
        implied = int(a) < int(b)
        if entry["implies_reverse"] != implied and (implied or (b, a) in pairs):
            return None
        lines.append(f"a range {interval} {a} {b} {owlt}")
        if entry["implies_reverse"] and not implied:
            lines.append(f"a range {interval} {b} {a} {owlt}")
    return "\n".join(lines) + "\n"
