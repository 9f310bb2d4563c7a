"""``plan.json`` of a store: what its runs are, with a checksum of itself and one of ``scenario.toml``.

Nothing in it cannot be had again: the command that made the store writes it anew, from the scenario and from the runs
that are there (:func:`again`).
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

__all__ = ["LostPlanError", "PlanFile", "again", "read", "rows", "text", "written"]

_END = re.compile(r', "sha256": "([0-9a-f]{64})"}\n\Z')
"""Its checksum, of all before."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class LostPlanError(StoreError):
    """A ``plan.json`` that is not there or cannot be read."""


@dataclass(frozen=True)
class PlanFile:
    """What ``plan.json`` says."""

    title: str
    engine: str
    schema: int
    overrides: tuple[str, ...]
    planned: tuple[dict[str, Any], ...]
    """Every run: ``id``, ``seed``, ``cell``."""
    scenario: str | None
    """Checksum of the scenario; None in a store that was made before there were checksums."""
    summed: bool
    """Whether every run has checksums."""


def rows(plan: Plan) -> list[dict[str, Any]]:
    """The runs of a plan, as ``plan.json`` has them."""
    return [{"id": run.id, "seed": run.seed, "cell": dict(run.cell)} for run in plan.runs]


def text(plan: Plan, planned: Sequence[Mapping[str, Any]], scenario: bytes, *, summed: bool) -> str:
    """``plan.json`` of a store with the runs ``planned``."""
    head: dict[str, Any] = {
        "schema": SCHEMA,
        "title": plan.title,
        "engine": plan.engine,
        "overrides": list(plan.document.overrides),
        "scenario": checksum(scenario),
    }
    if summed:
        head["checksums"] = "sha256"
    return written(head, planned)


def written(head: Mapping[str, Any], planned: Sequence[Mapping[str, Any]]) -> str:
    """A ``plan.json`` that says ``head`` and the runs ``planned``, with its checksum."""
    listed = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in planned)
    body = json.dumps(head, ensure_ascii=False)[:-1] + f', "runs": [\n  {listed}\n]'
    return f'{body}, "sha256": "{checksum(body.encode())}"}}\n'


def read(store: Path) -> PlanFile:
    """What the ``plan.json`` of ``store`` says.

    Raises:
        NothingRunError: there is no such directory.
        LostPlanError: it is damaged or not there.
        StoreError: it cannot be read, or is a newer bentpipe's.
    """
    file = store / "plan.json"
    lost = "the command that made the store writes it anew and keeps what is finished"
    for name in ("runs", "packs"):
        check_folder(store / name)
    try:
        found = _parsed(read_input(file, links=False).decode())
    except InputFileError as error:
        if file.is_dir() and not file.is_symlink():
            lost = f"remove it: then {lost}"
        raise LostPlanError(f"{file} cannot be read: {error.strerror}; {lost}") from None
    except (FileNotFoundError, NotADirectoryError):
        if not store.exists():
            raise EmptyStoreError(f"{store} is not a store: there is no such directory") from None
        if (store / "runs").is_dir() and (store / "scenario.toml").is_file():
            raise LostPlanError(f"{file} is missing; {lost}") from None
        what = "it is a file" if store.is_file() else "it has no plan.json"
        raise LostPlanError(f"{store} is not a store: {what}") from None
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
        raise LostPlanError(f"{file} cannot be read: it is not the plan of a store; {lost}") from None
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror}") from None
    if found.schema > SCHEMA:
        raise StoreError(
            f"{store} was made by engine {found.engine}, schema {found.schema}, expected schema {SCHEMA} "
            "or older: a newer bentpipe reads it"
        )
    return found


def _parsed(content: str) -> PlanFile:
    """Raises ValueError and its like for what is no plan, or not the one that was written."""
    plan = parse_json(content)
    end = _END.search(content)
    if end is None and "checksums" in plan:
        raise ValueError("it has no checksum")
    if end is not None and checksum(content[: end.start()].encode()) != end[1]:
        raise ValueError("its checksum is another")
    if _SURROGATE.search(content):
        json.dumps(plan, ensure_ascii=False).encode()  # half a letter in a text, which no table takes
    return PlanFile(
        title=str(plan["title"]),
        engine=str(plan["engine"]),
        schema=int(plan["schema"]),
        overrides=tuple(map(str, plan["overrides"])),
        planned=tuple(map(_row, plan["runs"])),
        scenario=plan.get("scenario"),
        summed="checksums" in plan,
    )


def _row(run: dict[str, Any]) -> dict[str, Any]:
    if not (type(run["id"]) is str and type(run["seed"]) is int and type(run["cell"]) is dict):
        run = {"id": str(run["id"]), "seed": int(run["seed"]), "cell": dict(run["cell"])}
    if abs(run["seed"]) >> 63:
        raise ValueError("a seed has more than 63 bits")
    return run  # as it is: there may be 100,000 of them


def again(plan: Plan, others: Mapping[str, tuple[Path, int | None]]) -> list[dict[str, Any]]:
    """The rows of a ``plan.json`` that was lost: the plan's, and those of ``others``, which are of other seeds of it.

    Args:
        plan: what the command asks for.
        others: runs of the store that are none of the plan's: where each is, and its seed.

    Raises:
        StoreError: one of them is none of this scenario, with these settings and this engine.
    """
    found = rows(plan)
    for run, (place, seed) in sorted(others.items()):
        row = None if seed is None else _identified(seed, run, plan)
        if row is None:
            raise StoreError(
                f"{place.parent.parent / 'plan.json'} is lost, and run {run} is none of this command's with engine "
                f"{plan.engine}: say --set, and what else was said when the store was made, again; or remove {place}"
            )
        found.append(row)
    return found


def _identified(seed: int, run: str, plan: Plan) -> dict[str, Any] | None:
    """The row of a run by its seed: its id is a hash of what one of the plan's runs with that seed rests on."""
    for like in {canonical(one.cell): one for one in plan.runs}.values():
        if run_id(like.cell, {**like.spec, "seed": seed}, plan.engine, plan.user_code) == run:
            return {"id": run, "seed": seed, "cell": dict(like.cell)}
    return None
