"""Ids of runs: hashes of every input of a run. Readers of a store need no other part of a plan."""

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

SCHEMA = 2
"""Version of plans, results and the store."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


_SEED_PLACEHOLDER = "\0"
"""Placeholder of the seed, which JSON cannot contain unescaped."""


def canonical(value: object) -> str:
    """Return JSON with sorted keys and no spaces, so that equal values give equal text."""
    return _ENCODER.encode(value)


def run_id(cell: Mapping[str, Any], spec: RunSpec, engine: str, user_code: Mapping[str, str]) -> str:
    """Return the id of a run; see :func:`run_ids`."""
    return run_ids(cell, spec, engine, user_code, [spec["seed"]])[0]


def run_ids(
    cell: Mapping[str, Any], spec: RunSpec, engine: str, user_code: Mapping[str, str], seeds: Sequence[int]
) -> list[str]:
    """Return the ids of the runs of a cell, which differ in their seed.

    The certificate hash of a page server is not part of the id: a restarted server has another key and serves the
    same sessions.

    Args:
        cell: swept keys and their values.
        spec: the resolved run; its seed is ignored.
        engine: version of the engine.
        user_code: fingerprints of user-supplied controllers and schedulers, by name.
        seeds: seeds of the runs.
    """
    members: dict[str, Any] = {**spec}
    if "browser" in members:
        members["browser"] = {key: value for key, value in members["browser"].items() if key != "spki"}
    texts = {key: _flows(value) if key == "flows" else canonical(value) for key, value in members.items()}
    inputs = {"schema": canonical(SCHEMA), "engine": canonical(engine), "cell": canonical(cell)}
    names = [*sorted(controllers(spec)), *(SCHEDULER_PREFIX + name for name in sorted(schedulers(spec)))]
    fingerprints = {name: user_code[name] for name in names if name in user_code}
    if fingerprints:
        inputs["controllers"] = canonical(fingerprints)
    inputs["spec"] = _table({**texts, "seed": _SEED_PLACEHOLDER})
    prefix, _, suffix = _table(inputs).partition(_SEED_PLACEHOLDER)
    prefix_hash = hashlib.sha256(prefix.encode())
    ids = []
    for seed in seeds:
        run_hash = prefix_hash.copy()
        run_hash.update(f"{canonical(seed)}{suffix}".encode())
        ids.append(run_hash.hexdigest()[:16])
    return ids


def _flows(flows: Sequence[Mapping[str, Any]]) -> str:
    """Encode flows like :func:`canonical`; tables that flows of a group share are encoded once."""
    encoded: dict[int, str] = {}
    orders: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    texts = []
    for flow in flows:
        keys = tuple(flow)
        if keys not in orders:
            orders[keys] = [(key, f'"{key}":') for key in sorted(keys)]
        members = []
        for key, prefix in orders[keys]:
            value = flow[key]
            if isinstance(value, str):
                text = canonical(value)
            elif (cached := encoded.get(id(value))) is not None:
                text = cached
            else:
                text = encoded[id(value)] = canonical(value)
            members.append(prefix + text)
        texts.append("{" + ",".join(members) + "}")
    return f"[{','.join(texts)}]"


def _table(texts: Mapping[str, str]) -> str:
    return "{" + ",".join([f'"{key}":{texts[key]}' for key in sorted(texts)]) + "}"
