"""The engine, and nothing else of bentpipe: the only module that imports it. Workers load only this.

``$BENTPIPE_ENGINE`` names the file of another one than the package's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.spec.run_spec import RadioStageSpec


def _from_file(file: str) -> None:
    """Puts the engine of a file in the place of the package's. Raises ImportError."""
    name = "bentpipe._engine"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f'BENTPIPE_ENGINE: "{file}" is no engine, expected a file such as _engine.abi3.so')
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise ImportError(f'BENTPIPE_ENGINE: "{file}" does not load: {error}') from None
    sys.modules[name] = module
    vars(sys.modules["bentpipe"])["_engine"] = module  # as an import does


if _other := os.environ.get("BENTPIPE_ENGINE"):
    _from_file(_other)

from bentpipe import _engine  # noqa: E402 - once it is known which
from bentpipe.runners.user_modules import module_of  # noqa: E402

__all__ = [
    "best_delivery",
    "catalogue",
    "channel_information",
    "check_contact_plan",
    "check_controller",
    "check_scheduler",
    "coded_bits",
    "descriptors",
    "load_controllers",
    "orbit",
    "orbit_passes",
    "orbit_tables",
    "read_contact_plan",
    "route_bundle",
    "run",
    "run_schema",
    "slowness",
    "version",
]


def version() -> str:
    """Version of the engine; it changes whenever results may."""
    return _engine.version()


def slowness() -> str:
    """Why the engine is slower than it could be, and what mends it; empty if it is compiled for speed.

    ``make demo`` compiles one that is there soon (docs/decisions/0077), ``make test`` one that checks itself, ``make
    engine`` one that no counts guide where none are kept (docs/decisions/0078). Results are the same.
    """
    profile = _engine.profile()
    return (
        ""
        if profile == "guided"
        else f"compiled by profile {profile!r}; `make train engine` makes a quicker one"
    )


def descriptors() -> dict[str, list[dict[str, Any]]]:
    """Return the descriptors of every kind that a scenario names, by kind."""
    kinds: dict[str, list[dict[str, Any]]] = json.loads(_engine.descriptors())
    return kinds


def catalogue() -> list[dict[str, Any]]:
    """Return the descriptors of the congestion controllers."""
    return descriptors()["controllers"]


def run_schema() -> dict[str, Any]:
    """What :func:`run` takes, as a JSON Schema."""
    schema: dict[str, Any] = json.loads(_engine.run_schema())
    return schema


def run(spec_json: str, controllers: Mapping[str, type] | None = None) -> bytes:
    """Runs one resolved run and returns its measurements (docs/manual/engine.md).

    Raises:
        ValueError: what is wrong with the run.
    """
    return _engine.run(spec_json, dict(controllers) if controllers else None)


def coded_bits(radio: RadioStageSpec) -> list[int]:
    """Coded bits of a frame in each attempt of a radio link; the last holds for all that follow.

    Raises:
        ValueError: what is wrong with the specification.
    """
    return _engine.coded_bits(json.dumps({key: value for key, value in radio.items() if key != "kind"}))


def channel_information(channel: Mapping[str, Any], spacing_ns: int, count: int) -> float:
    """Mean information per coded bit of a channel of a resolved run, to its first user at ``count`` instants.

    Raises:
        ValueError: what is wrong with the specification.
    """
    return _engine.channel_information(json.dumps(channel), spacing_ns, count)


def orbit(question: Mapping[str, Any]) -> dict[str, Any]:
    """Paths and delays over a constellation (``JsonRequest`` and ``JsonResponse`` of ``crates/orbit``).

    Raises:
        ValueError: what is wrong with the question.
    """
    answer: dict[str, Any] = json.loads(_engine.orbit(json.dumps(question)))
    return answer


def orbit_passes(spec: Mapping[str, Any]) -> dict[str, Any]:
    """When who sees whom under a constellation (``PassesSpec`` and ``PassList`` of ``crates/orbit``).

    Raises:
        ValueError: what is wrong with the specification.
    """
    found: dict[str, Any] = json.loads(_engine.orbit_passes(json.dumps(spec)))
    return found


def orbit_tables(spec: Mapping[str, Any]) -> int:
    """Every satellite's next hop to every ground station (``ForwardingTablesSpec`` of ``crates/orbit``), as one number.

    Raises:
        ValueError: what is wrong with the specification.
    """
    return _engine.orbit_tables(json.dumps(spec))


def read_contact_plan(text: str) -> dict[str, Any]:
    """A contact plan of ION's commands: ``plan``, and lines passed over and wrong (``ion`` of ``crates/contacts``)."""
    found: dict[str, Any] = json.loads(_engine.read_contact_plan(text))
    return found


def check_contact_plan(spec: Mapping[str, Any]) -> dict[str, Any]:
    """``problems`` and ``remarks`` of a contact plan, and the ranges of its pairs.

    Raises:
        ValueError: it is none.
    """
    found: dict[str, Any] = json.loads(_engine.check_contact_plan(json.dumps(spec)))
    return found


def route_bundle(question: Mapping[str, Any]) -> dict[str, Any]:
    """What a node does with a bundle by a contact plan, and why (``RouteRequest`` of ``crates/contacts``).

    Raises:
        ValueError: what is wrong with the question, by its field.
    """
    answer: dict[str, Any] = json.loads(_engine.route_bundle(json.dumps(question)))
    return answer


def best_delivery(question: Mapping[str, Any]) -> dict[str, Any]:
    """What a destination can have at best by a contact plan (``BoundRequest`` of ``crates/contacts``).

    Raises:
        ValueError: what is wrong with the question, by its field.
    """
    answer: dict[str, Any] = json.loads(_engine.best_delivery(json.dumps(question)))
    return answer


def check_controller(controller: str | type, options: Mapping[str, object]) -> Any:
    """Verdicts of the conformance list on a controller, by name or as a class."""
    return json.loads(_engine.check_controller(controller, json.dumps(dict(options))))


def check_scheduler(scheduler: str | type, options: Mapping[str, object]) -> Any:
    """Verdicts of the conformance list on a scheduler of users, by name or as a class; None: there is no such."""
    rows = _engine.check_scheduler(scheduler, json.dumps(dict(options)))
    return None if rows is None else json.loads(rows)


def load_controllers(places: Mapping[str, str], search: Sequence[str] = ()) -> dict[str, type]:
    """Classes by name, from ``module:Class``; ``search`` is put behind the module search path.

    Raises:
        ImportError, AttributeError: there is no such class here.
    """
    sys.path.extend(place for place in search if place not in sys.path)
    found: dict[str, type] = {}
    for name, place in places.items():
        module, _, qualified = place.partition(":")
        at: Any = module_of(module)
        for word in qualified.split("."):
            at = getattr(at, word)
        found[name] = at
    return found
