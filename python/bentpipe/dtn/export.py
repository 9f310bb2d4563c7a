"""A contact plan again in the other forms: TOML, JSON, and ION's commands where they can say it."""

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

    from bentpipe.dtn.contact_plan import Found

__all__ = ["as_ion", "as_tables", "as_toml", "write"]

SECOND = 10**9


def write(found: Found, out: Path) -> list[Path]:
    """Writes ``plan.toml``, ``plan.json`` and ``plan.ionrc`` into ``out``; the last only where ION can say it."""
    tables = as_tables(found)
    texts = {
        "plan.toml": as_toml(tables),
        "plan.json": json.dumps(tables, indent=1, ensure_ascii=False) + "\n",
    }
    ion = as_ion(found)
    if ion is not None:
        texts["plan.ionrc"] = ion
    written = []
    for name, text in texts.items():
        write_atomic(out / name, text.encode())
        written.append(out / name)
    return written


def as_toml(tables: Mapping[str, Any]) -> str:
    """The same as text."""
    plain = {key: value for key, value in tables.items() if not isinstance(value, list)}
    lists = (flat(key, value) for key, value in tables.items() if isinstance(value, list))
    return "\n".join(filter(None, (dumps(plain), *lists)))


def as_tables(found: Found) -> dict[str, Any]:
    """The tables of ``ContactPlan`` that say the same."""
    tables: dict[str, Any] = {}
    if found.title:
        tables["title"] = found.title
    epoch = instant(found, 0)
    if epoch is not None:
        tables["epoch"] = epoch
    tables["contact"] = [_contact(one) for one in found.spec["contacts"]]
    if found.spec["ranges"]:
        tables["range"] = [_range(one) for one in found.spec["ranges"]]
    if found.statics:
        tables["route"] = [
            {key: value for key, value in (("at", at), ("to", to), ("via", via)) if value is not None}
            for at, to, via in found.statics
        ]
    return tables


def _text(ns: int) -> str:
    return str(Duration(ns)) if ns else "0 s"


def _contact(one: Mapping[str, Any]) -> dict[str, Any]:
    table = {
        "from": one["from"],
        "to": one["to"],
        "start": _text(one["start_ns"]),
        "stop": _text(one["stop_ns"]),
        "rate": str(Rate(one["rate_bit_s"])),
    }
    return table if one["confidence"] == 1 else table | {"confidence": one["confidence"]}


def _range(one: Mapping[str, Any]) -> dict[str, Any]:
    table = {"from": one["from"], "to": one["to"], "start": _text(one["start_ns"])}
    if one["stop_ns"] < FOREVER_NS:
        table["stop"] = _text(one["stop_ns"])
    table["owlt"] = _text(one["owlt_ns"])
    return table if one["implies_reverse"] else table | {"one_way": True}


def as_ion(found: Found) -> str | None:
    """ION's commands; None where a node has no number, or a time, a rate or a light time is not whole in its units.

    A range that ION's order of numbers would understand otherwise is said for each direction.
    """
    names = [
        one[end] for kind in ("contacts", "ranges") for one in found.spec[kind] for end in ("from", "to")
    ]
    if not all(name.isascii() and name.isdigit() for name in names):
        return None
    whole = [
        one[key]
        for kind in ("contacts", "ranges")
        for one in found.spec[kind]
        for key in ("start_ns", "stop_ns")
    ]
    whole += [one["owlt_ns"] for one in found.spec["ranges"]]
    if any(ns % SECOND and ns != FOREVER_NS for ns in whole) or any(
        one["rate_bit_s"] % 8 for one in found.spec["contacts"]
    ):
        return None
    lines = []
    epoch = instant(found, 0)
    if epoch is not None:
        lines.append(f"@ {epoch[:10].replace('-', '/')}-{epoch[11:19]}")
    stop = max((one["stop_ns"] for one in found.spec["contacts"]), default=0)
    for one in found.spec["contacts"]:
        when = f"+{one['start_ns'] // SECOND} +{one['stop_ns'] // SECOND}"
        tail = "" if one["confidence"] == 1 else f" {one['confidence']:g}"
        lines.append(f"a contact {when} {one['from']} {one['to']} {one['rate_bit_s'] // 8}{tail}")
    named = {one[end] for one in found.spec["contacts"] for end in ("from", "to")}
    lines += [
        f"a contact -1 -1 {node} {node} 0" for node in nodes(found) if node.isdecimal() and node not in named
    ]
    own = {(one["from"], one["to"]) for one in found.spec["ranges"]}
    for one in found.spec["ranges"]:
        end = min(one["stop_ns"], max(stop, one["start_ns"] + SECOND))
        when = f"+{one['start_ns'] // SECOND} +{end // SECOND}"
        light = one["owlt_ns"] // SECOND
        a, b = one["from"], one["to"]
        implied = int(a) < int(b)
        if one["implies_reverse"] != implied and (implied or (b, a) in own):
            return None
        lines.append(f"a range {when} {a} {b} {light}")
        if one["implies_reverse"] and not implied:
            lines.append(f"a range {when} {b} {a} {light}")
    return "\n".join(lines) + "\n"
