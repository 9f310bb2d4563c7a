"""What a run is called: its id is a hash of all that its bytes rest on. Who reads a store needs no more of a plan."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from bentpipe.plan.chance import controllers
from bentpipe.plan.schedulers import OWN, schedulers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.plan.spec import RunSpec

__all__ = ["SCHEMA", "canonical", "identity"]

SCHEMA = 1
"""Version of plans, results and the store together."""


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return _ENCODER.encode(value)


def identity(cell: Mapping[str, Any], spec: RunSpec, engine: str, own: Mapping[str, str]) -> str:
    """A run's id: a hash of all that its bytes rest on.

    Of a real server's, its key is left out: one that was started again has another, and its units are the same.
    """
    whole: dict[str, Any] = {**spec}
    if "browser" in whole:
        whole["browser"] = {key: value for key, value in whole["browser"].items() if key != "spki"}
    rests_on: dict[str, Any] = {"schema": SCHEMA, "engine": engine, "cell": cell, "spec": whole}
    named = [*sorted(controllers(spec)), *(OWN + name for name in sorted(schedulers(spec)))]
    prints = {name: own[name] for name in named if name in own}
    if prints:
        rests_on["controllers"] = prints
    return hashlib.sha256(canonical(rests_on).encode()).hexdigest()[:16]
