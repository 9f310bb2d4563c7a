"""Interface to the engine: the only module that imports it, and the only module of bentpipe that workers load.

``$BENTPIPE_ENGINE`` names the file of another engine than the one of the package.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.spec.run_spec import RadioStageSpec


def _load_file(file: str) -> None:
    """Load the engine of a file in place of the packaged one; raise ImportError."""
    name = "bentpipe._engine"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(
            f'BENTPIPE_ENGINE: "{file}" is not an engine, expected a file such as _engine.abi3.so'
        )
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise ImportError(f'BENTPIPE_ENGINE: "{file}" does not load: {error}') from None
    sys.modules[name] = module
    vars(sys.modules["bentpipe"])["_engine"] = module  # as an import statement does


if _engine_file := os.environ.get("BENTPIPE_ENGINE"):
    _load_file(_engine_file)

from bentpipe import _engine  # noqa: E402 - after the choice of the engine
from bentpipe.runners.user_modules import module_in_file, module_of  # noqa: E402

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
    """Return the version of the engine; it changes with every possible change of results."""
    return _engine.version()


def slowness() -> str:
    """Return why the engine is slower than possible, and the remedy; empty: it is compiled for speed.

    ``make demo`` compiles an engine quickly (docs/decisions/0077), ``make test`` one with self-checks, and ``make
    engine``
    one without profile-guided optimisation where no profiles exist (docs/decisions/0078). Results are equal.
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
    """Return the JSON Schema of the argument of :func:`run`."""
    schema: dict[str, Any] = json.loads(_engine.run_schema())
    return schema


def run(
    spec_json: str,
    controllers: Mapping[str, type] | None = None,
    limits: tuple[int, int] | None = None,
) -> bytes:
    """Execute one resolved run and return its measurements (docs/reference/engine.md).

    Args:
        spec_json: the resolved run as JSON.
        controllers: user-supplied controllers by name.
        limits: numbers of events and of bytes of memory at which the run ends; None: no limits.

    Raises:
        ValueError: invalid run, or a limit was reached; the message names the cause.
    """
    return _engine.run(spec_json, dict(controllers) if controllers else None, limits)


def coded_bits(radio: RadioStageSpec) -> list[int]:
    """Return the coded bits of a frame in each attempt of a radio link; the last value holds for all further attempts.

    Raises:
        ValueError: invalid specification; the message names the cause.
    """
    return _engine.coded_bits(json.dumps({key: value for key, value in radio.items() if key != "kind"}))


def channel_information(channel: Mapping[str, Any], spacing_ns: int, count: int) -> float:
    """Return the mean information per coded bit of a channel of a resolved run.

    Args:
        channel: specification of the channel.
        spacing_ns: interval between the instants.
        count: number of instants; the value is for the first user.

    Raises:
        ValueError: invalid specification; the message names the cause.
    """
    return _engine.channel_information(json.dumps(channel), spacing_ns, count)


def orbit(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return paths and delays over a constellation (``JsonRequest`` and ``JsonResponse`` of ``crates/orbit``).

    Raises:
        ValueError: invalid request; the message names the cause.
    """
    answer: dict[str, Any] = json.loads(_engine.orbit(json.dumps(question)))
    return answer


def orbit_passes(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the visibility intervals under a constellation (``PassesSpec`` and ``PassList`` of ``crates/orbit``).

    Raises:
        ValueError: invalid specification; the message names the cause.
    """
    found: dict[str, Any] = json.loads(_engine.orbit_passes(json.dumps(spec)))
    return found


def orbit_tables(spec: Mapping[str, Any]) -> int:
    """Return the forwarding tables of all satellites to all ground stations as one number.

    The specification is ``ForwardingTablesSpec`` of ``crates/orbit``.

    Raises:
        ValueError: invalid specification; the message names the cause.
    """
    return _engine.orbit_tables(json.dumps(spec))


def read_contact_plan(text: str) -> dict[str, Any]:
    """Parse a contact plan of ION commands: ``plan``, skipped and invalid lines (``ion`` of ``crates/contacts``)."""
    found: dict[str, Any] = json.loads(_engine.read_contact_plan(text))
    return found


def check_contact_plan(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``problems`` and ``warnings`` of a contact plan, and the ranges of its pairs.

    Raises:
        ValueError: not a contact plan.
    """
    found: dict[str, Any] = json.loads(_engine.check_contact_plan(json.dumps(spec)))
    return found


def route_bundle(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the routing decision of a node for a bundle, and its reasons (``RouteRequest`` of ``crates/contacts``).

    Raises:
        ValueError: invalid request; the message starts with the field.
    """
    answer: dict[str, Any] = json.loads(_engine.route_bundle(json.dumps(question)))
    return answer


def best_delivery(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the delivery bound of a contact plan (``BoundRequest`` of ``crates/contacts``).

    Raises:
        ValueError: invalid request; the message starts with the field.
    """
    answer: dict[str, Any] = json.loads(_engine.best_delivery(json.dumps(question)))
    return answer


def check_controller(controller: str | type, options: Mapping[str, object]) -> Any:
    """Return the verdicts of the conformance list on a controller, by name or as a class."""
    return json.loads(_engine.check_controller(controller, json.dumps(dict(options))))


def check_scheduler(scheduler: str | type, options: Mapping[str, object]) -> Any:
    """Return the verdicts of the conformance list on a scheduler, by name or as a class; None: no such scheduler."""
    rows = _engine.check_scheduler(scheduler, json.dumps(dict(options)))
    return None if rows is None else json.loads(rows)


def load_controllers(places: Mapping[str, str], search: Sequence[str] = ()) -> dict[str, type]:
    """Load classes by name.

    Args:
        places: ``module:Class`` or ``FILE.py:Class`` by name.
        search: directories to append to the module search path.

    Raises:
        ImportError: no such module.
        AttributeError: no such class in the module.
    """
    sys.path.extend(place for place in search if place not in sys.path)
    classes: dict[str, type] = {}
    for name, place in places.items():
        module, _, qualified = place.rpartition(":")
        attribute: Any = module_in_file(Path(module)) if module.endswith(".py") else module_of(module)
        for part in qualified.split("."):
            attribute = getattr(attribute, part)
        classes[name] = attribute
    return classes
