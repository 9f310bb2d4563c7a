"""``bentpipe shell``: any command behind an emulated access.

The path is planned here and carried by the executable ``bentpipe-rt`` (crates/rt), which needs Linux, ``ip`` and
``/dev/net/tun``; as root, or as an ordinary user where the kernel gives user namespaces.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from bentpipe.lab.control import CONTROL, CONTROL_FOLDER
from bentpipe.lab.executable import executable
from bentpipe.lab.process import folder_name, signals_in_order, started
from bentpipe.lab.process_plans import to_json
from bentpipe.lab.prompt import prompted
from bentpipe.lab.requirements import check_lab, first_missing
from bentpipe.runners.runner import RunnerError
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bentpipe.lab.process_plans import LabPlan, Process

__all__ = ["InterruptedLab", "LabError", "run", "run_lab", "run_plan"]


class LabError(RuntimeError):
    """A session in real time could not be."""


def run(
    access: str,
    command: Sequence[str],
    *,
    overrides: Sequence[tuple[str, object]] = (),
    check: bool | None = None,
    outside: bool = True,
    watch: bool = False,
    record: Path | None = None,
    pep: str | None = None,
    users: int | None = None,
    mix: str | None = None,
    on_message: Callable[[str], None] | None = None,
) -> int:
    """Runs ``command`` behind ``access``; returns its exit status.

    Args:
        access: a preset, or a scenario file.
        command: the command and its arguments; a shell without, which has the access in its prompt.
        overrides: dotted keys and values, as ``--set`` gives them.
        check: measure round-trip time and rates before the command starts; without, unless that was done on this
            machine before and kept.
        outside: let the command reach what this machine reaches (an ordinary user's: where pasta or slirp4netns is
            installed).
        watch: show rate, queue and drops in the terminal's title.
        record: new directory for the series, the result and the plan.
        users: simulated users who share the access with the command.
        mix: shares of them by what they do (:data:`bentpipe.lab.background_traffic.MIX`).
        pep: set-up of a proxy behind the longest segment, where the scenario has none; an ordinary user's way outside
            has one in any case.
        on_message: called with each line to print before the command starts.

    Raises:
        ScenarioError: as :func:`lab`, and when ``bentpipe-rt`` is not built.
        bentpipe.runners.runner.RunnerError: what this machine lacks.
    """
    program = executable()
    check_lab(proxies=pep is not None)
    folder = folder_name(CONTROL_FOLDER)
    environment = {**os.environ, ACCESS: access}
    words = list(command)
    files: dict[str, str] = {}
    if not words:
        words, more, files = prompted(os.environ.get("SHELL", "/bin/sh"), access, folder, environment)
        environment |= more
    control = environment[CONTROL] = str(folder / "socket")
    # The lab makes what every lab has while the libraries are loaded that plan this one.
    with signals_in_order(), started(program, [folder], env=environment) as lab:
        from bentpipe.lab.access import led_outside
        from bentpipe.lab.path_check_cache import keep, kept

        pep = led_outside(pep) if outside else pep
        plan = _planned(access, words, overrides, users=users, mix=mix, pep=pep)
        plan |= {"outside": outside, "watch": watch, "control": control}
        before = kept(plan, program) if check is None else None
        plan["check"] = check is not False and before is None
        if before is not None:
            plan["calibrations"] = before.calibrations
        if record is not None:
            if record.exists() and (not record.is_dir() or any(record.iterdir())):
                raise ScenarioError([("--record", f"{record} is there already, expected a new directory")])
            record.mkdir(parents=True, exist_ok=True)
            (record / "plan.json").write_bytes(to_json(plan, indent=1) + b"\n")
            plan["record"] = {"directory": str(record.absolute()), "interval_ns": RECORD_NS}
        result = folder / "result.json" if record is None else record.absolute() / "result.json"
        plan["result"] = str(result)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        if before is not None and on_message is not None:
            on_message(before.line())
        lab.send(plan)
        status = lab.wait()[0]
        if status and not result.exists() and (missing := first_missing(proxies=False)):
            raise RunnerError("; ".join(missing))
        if plan["check"] and result.exists():
            keep(plan, program, json.loads(result.read_text(encoding="utf-8")))
        return status


def _planned(
    access: str,
    words: Sequence[str],
    overrides: Sequence[tuple[str, object]],
    *,
    users: int | None,
    mix: str | None,
    pep: str | None,
) -> LabPlan:
    """The path of ``access``, what splits TCP on it, the command behind it and who shares it. Raises ScenarioError."""
    from bentpipe.lab.access import resolve_path, resolve_with_users
    from bentpipe.lab.background_traffic import MIX

    near: list[Process] = [{"name": "command", "command": words}]
    if users is not None:
        path, crowd = resolve_with_users(access, overrides, users=users, mix=mix or MIX, pep=pep)
        return {"lab": path, "proxies": list(crowd.get("proxies", ())), "near": near, "crowd": crowd}
    if mix is not None:
        raise ScenarioError([("--mix", "goes with --users, and there are none")])
    path, proxies = resolve_path(access, overrides, pep=pep)
    return {"lab": path, "proxies": proxies, "near": near}


ACCESS = "BENTPIPE_ACCESS"
"""Environment variable that names the access that a command is behind."""

RECORD_NS = 100_000_000
"""Between two rows of a record: the emulator renews its counters as often."""


def run_plan(plan: LabPlan | Mapping[str, Any]) -> int:
    """Carries out the plan of a session (``process_plans.Plan``); returns the exit status of its first near
    command, or 2 when the session could not be.

    Whatever ends this process ends the session, and nothing of it is left.

    Raises:
        ScenarioError: what is wrong with the plan, by key; ``bentpipe-rt`` is not built.
    """
    from bentpipe.lab.plan_validation import checked

    whole = checked(plan)
    with signals_in_order(), started(executable(), []) as lab:
        lab.send(whole)
        return lab.wait()[0]


class InterruptedLab(KeyboardInterrupt):
    """Ctrl-C during a session, whose commands have got it too. ``result`` is what was measured by then."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("the session was interrupted")
        self.result = result


def run_lab(plan: LabPlan | Mapping[str, Any]) -> dict[str, Any]:
    """Carries out the plan of a session and returns its result (docs/manual/shell.md has both, key by key).

    Whatever ends this process ends the session, and nothing of it is left.

    Raises:
        ScenarioError: what is wrong with the plan, by key; ``bentpipe-rt`` is not built.
        SessionError: the session could not be; ``bentpipe-rt`` has said why.
        bentpipe.runners.runner.RunnerError: what this machine lacks.
        InterruptedSession: Ctrl-C; the session has ended cleanly.
    """
    from bentpipe.lab.plan_validation import checked

    whole = checked(plan)
    check_lab(proxies=bool(whole.get("proxies")))
    folder = folder_name("bentpipe-session-")
    result = folder / "result.json"
    with signals_in_order(), started(executable(), [folder]) as lab:
        lab.send({**whole, "result": str(result)})
        status, interrupted = lab.wait()
        if not result.exists():
            if interrupted:
                raise InterruptedLab({})
            raise LabError(f"the emulator ended with status {status} before there was a result")
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        if interrupted:
            raise InterruptedLab(found)
        return found
