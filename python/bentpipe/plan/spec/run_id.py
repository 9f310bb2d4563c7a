"""What a run is called: its id is a hash of all that its bytes rest on. Who reads a store needs no more of a plan."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from bentpipe.plan.link.scheduler import SCHEDULER_PREFIX, schedulers
from bentpipe.plan.randomness import controllers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.spec.run_spec import RunSpec

__all__ = ["SCHEMA", "canonical", "run_id", "run_ids"]

SCHEMA = 1
"""Version of plans, results and the store together."""


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


_SEED = "\0"
"""In the place of a seed: no JSON has it as it is."""


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return _ENCODER.encode(value)


def run_id(cell: Mapping[str, Any], spec: RunSpec, engine: str, own: Mapping[str, str]) -> str:
    """A run's id: a hash of all that its bytes rest on."""
    return run_ids(cell, spec, engine, own, [spec["seed"]])[0]


def run_ids(
    cell: Mapping[str, Any], spec: RunSpec, engine: str, own: Mapping[str, str], seeds: Sequence[int]
) -> list[str]:
    """Ids of the runs of a cell, which differ by their seed.

    Of a real server's, its key is left out: one that was started again has another, and its units are the same.
    """
    said: dict[str, Any] = {**spec}
    if "browser" in said:
        said["browser"] = {key: value for key, value in said["browser"].items() if key != "spki"}
    whole = {key: _flows(value) if key == "flows" else canonical(value) for key, value in said.items()}
    rests_on = {"schema": canonical(SCHEMA), "engine": canonical(engine), "cell": canonical(cell)}
    named = [*sorted(controllers(spec)), *(SCHEDULER_PREFIX + name for name in sorted(schedulers(spec)))]
    prints = {name: own[name] for name in named if name in own}
    if prints:
        rests_on["controllers"] = canonical(prints)
    rests_on["spec"] = _table({**whole, "seed": _SEED})
    before, _, after = _table(rests_on).partition(_SEED)
    begun = hashlib.sha256(before.encode())
    found = []
    for seed in seeds:
        one = begun.copy()
        one.update(f"{canonical(seed)}{after}".encode())
        found.append(one.hexdigest()[:16])
    return found


def _flows(flows: Sequence[Mapping[str, Any]]) -> str:
    """As :func:`canonical` has them. Flows of a group share most of their tables: each of these is encoded once."""
    known: dict[int, str] = {}
    orders: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    found = []
    for flow in flows:
        keys = tuple(flow)
        if keys not in orders:
            orders[keys] = [(key, f'"{key}":') for key in sorted(keys)]
        members = []
        for key, lead in orders[keys]:
            value = flow[key]
            if isinstance(value, str):
                text = canonical(value)
            elif (kept := known.get(id(value))) is not None:
                text = kept
            else:
                text = known[id(value)] = canonical(value)
            members.append(lead + text)
        found.append("{" + ",".join(members) + "}")
    return f"[{','.join(found)}]"


def _table(texts: Mapping[str, str]) -> str:
    return "{" + ",".join([f'"{key}":{texts[key]}' for key in sorted(texts)]) + "}"
