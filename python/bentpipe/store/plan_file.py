"""``plan.json`` of a store: its runs, with a checksum of itself and one of ``scenario.toml``.

The file can be recovered: the command that created the store rewrites it from the scenario and the existing runs
(:func:`again`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.plan.spec.run_id import SCHEMA, canonical, run_id
from bentpipe.scenario.input_file import InputFileError, parse_json, read_input
from bentpipe.store.files import EmptyStoreError, StoreError, check_folder, checksum

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.plan.plan import Plan

__all__ = ["LostPlanError", "PlanFile", "again", "find", "read", "rows", "text", "written"]

NAME = "plan.json"
"""Name of the file."""

_END = re.compile(r', "sha256": "([0-9a-f]{64})"}\n\Z')
"""Checksum of the file, over everything before it."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class LostPlanError(StoreError):
    """Missing or unreadable ``plan.json``."""


@dataclass(frozen=True)
class PlanFile:
    """Content of ``plan.json``."""

    title: str
    engine: str
    schema: int
    overrides: tuple[str, ...]
    planned: tuple[dict[str, Any], ...]
    """Every run: ``id``, ``seed``, ``cell``."""
    scenario: str
    """Checksum of the scenario."""


def rows(plan: Plan) -> list[dict[str, Any]]:
    """Return the runs of a plan as ``plan.json`` has them."""
    return [{"id": run.id, "seed": run.seed, "cell": dict(run.cell)} for run in plan.runs]


def text(plan: Plan, planned: Sequence[Mapping[str, Any]], scenario: bytes) -> str:
    """Return the content of ``plan.json`` for a store with the runs ``planned``."""
    head: dict[str, Any] = {
        "schema": SCHEMA,
        "title": plan.title,
        "engine": plan.engine,
        "overrides": list(plan.document.overrides),
        "scenario": checksum(scenario),
    }
    return written(head, planned)


def written(head: Mapping[str, Any], planned: Sequence[Mapping[str, Any]]) -> str:
    """Return a ``plan.json`` with the keys of ``head`` and the runs ``planned``, and its checksum."""
    listed = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in planned)
    body = json.dumps(head, ensure_ascii=False)[:-1] + f', "runs": [\n  {listed}\n]'
    return f'{body}, "sha256": "{checksum(body.encode())}"}}\n'


def find(folder: Path) -> Path:
    """Return the store of a folder: the folder itself, or its ``store``, which break-even and capacity write."""
    inner = folder / "store"
    return inner if not (folder / NAME).exists() and (inner / NAME).is_file() else folder


def read(store: Path) -> PlanFile:
    """Read the ``plan.json`` of ``store``.

    Raises:
        EmptyStoreError: no such directory.
        LostPlanError: the file is damaged or missing.
        StoreError: the file is unreadable, of a newer bentpipe, or of bentpipe 0.1.
    """
    file = store / NAME
    fix = "rerun the command of the store to restore it; finished runs remain"
    for name in ("runs", "packs"):
        check_folder(store / name)
    try:
        content = _parse(read_input(file, links=False).decode())
    except InputFileError as error:
        if file.is_dir() and not file.is_symlink():
            fix = f"remove it: then {fix}"
        raise LostPlanError(f"{file} cannot be read: {error.strerror}; {fix}") from None
    except (FileNotFoundError, NotADirectoryError):
        if not store.exists():
            raise EmptyStoreError(f"{store} is not a store: there is no such directory") from None
        if (store / "runs").is_dir() and (store / "scenario.toml").is_file():
            raise LostPlanError(f"{file} is missing; {fix}") from None
        reason = "it is a file" if store.is_file() else "it has no plan.json"
        if store.is_file() and store.suffix == ".toml":
            reason = f"it is a scenario; `bentpipe run {store}` makes a store"
        raise LostPlanError(f"{store} is not a store: {reason}") from None
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
        raise LostPlanError(f"{file} cannot be read: it is not the plan of a store; {fix}") from None
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror}") from None
    if content.schema > SCHEMA:
        raise StoreError(
            f"{store} was created by engine {content.engine}, schema {content.schema}, expected schema {SCHEMA} "
            "or older: a newer bentpipe reads it"
        )
    if content.schema < SCHEMA:
        raise StoreError(
            f"{store} is a store of bentpipe 0.1, whose tables and columns have other names: run its scenario again "
            "into a new directory"
        )
    return content


def _parse(content: str) -> PlanFile:
    """Parse and verify the file; raise ValueError and similar errors for other content."""
    plan = parse_json(content)
    match = _END.search(content)
    if int(plan["schema"]) == SCHEMA and match is None:
        raise ValueError("it has no checksum")
    if match is not None and checksum(content[: match.start()].encode()) != match[1]:
        raise ValueError("checksum mismatch")
    if _SURROGATE.search(content):
        json.dumps(
            plan, ensure_ascii=False
        ).encode()  # an unpaired surrogate in a text, which no table can hold
    return PlanFile(
        title=str(plan["title"]),
        engine=str(plan["engine"]),
        schema=int(plan["schema"]),
        overrides=tuple(map(str, plan["overrides"])),
        planned=tuple(map(_row, plan["runs"])),
        scenario=str(plan.get("scenario", "")),
    )


def _row(run: dict[str, Any]) -> dict[str, Any]:
    if not (type(run["id"]) is str and type(run["seed"]) is int and type(run["cell"]) is dict):
        run = {"id": str(run["id"]), "seed": int(run["seed"]), "cell": dict(run["cell"])}
    if abs(run["seed"]) >> 63:
        raise ValueError("a seed has more than 63 bits")
    return run  # not copied: a store may have 100,000 runs


def again(plan: Plan, others: Mapping[str, tuple[Path, int | None]]) -> list[dict[str, Any]]:
    """Return the rows of a lost ``plan.json``: those of the plan, and those of ``others``, which have other seeds.

    Args:
        plan: plan of the command.
        others: runs of the store that the plan does not have: path and seed of each.

    Raises:
        StoreError: a run does not belong to this scenario, these settings and this engine.
    """
    result = rows(plan)
    for run, (directory, seed) in sorted(others.items()):
        row = None if seed is None else _identify(seed, run, plan)
        if row is None:
            raise StoreError(
                f"{directory.parent.parent / 'plan.json'} is lost, and run {run} does not belong to this command "
                f"with engine {plan.engine}; repeat --set and the other options of the store, or remove {directory}"
            )
        result.append(row)
    return result


def _identify(seed: int, run: str, plan: Plan) -> dict[str, Any] | None:
    """Return the row of a run by its seed: its id is a hash of the inputs of a planned run with that seed."""
    for candidate in {canonical(planned.cell): planned for planned in plan.runs}.values():
        if run_id(candidate.cell, {**candidate.spec, "seed": seed}, plan.engine, plan.user_code) == run:
            return {"id": run, "seed": seed, "cell": dict(candidate.cell)}
    return None
