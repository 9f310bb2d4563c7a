"""Labs of this process, and ``bentpipe shell``: any command over an emulated access.

Python plans the path. The executable ``bentpipe-rt`` (crates/rt) runs it. It needs Linux, ``ip`` and
``/dev/net/tun``, as root, or as an unprivileged user if the kernel permits user namespaces.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from bentpipe.lab.control import CONTROL, CONTROL_FOLDER
from bentpipe.lab.executable import executable
from bentpipe.lab.process import defer_signals, folder_name, start_lab
from bentpipe.lab.process_plans import to_json
from bentpipe.lab.prompt import build_prompt
from bentpipe.lab.requirements import check_lab, first_missing
from bentpipe.runners.runner import RunnerError
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bentpipe.lab.process_plans import LabPlan

__all__ = ["InterruptedLab", "LabError", "run", "run_lab", "run_plan"]


class LabError(RuntimeError):
    """A lab could not start."""


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
    seed: int | None = None,
    on_message: Callable[[str], None] | None = None,
) -> int:
    """Run ``command`` over ``access`` and return its exit status.

    Args:
        access: a preset or a scenario file.
        command: the command and its arguments; empty: a shell with the access in its prompt.
        overrides: dotted keys and values, as ``--set`` gives them.
        check: measure RTT and rates before the command starts; None: unless this host has stored a
            measurement.
        outside: let the command reach the network of the host. An unprivileged user needs pasta or
            slirp4netns.
        watch: show rate, queue and drops in the title of the terminal.
        record: new directory for the counters, the result and the plan.
        users: number of simulated users who share the access with the command.
        mix: shares of the users by kind (:data:`bentpipe.lab.background_traffic.MIX`).
        pep: handshake of a proxy behind the longest segment of a scenario without a proxy. The path of an
            unprivileged user to the network of the host always has a proxy.
        seed: seed of the random values of the path and of the simulated users; None: the first seed of the
            scenario, or 1.
        on_message: called with each message before the command starts.

    Raises:
        ScenarioError: as :func:`bentpipe.lab.access.resolve_path`; or ``bentpipe-rt`` is not built.
        bentpipe.runners.runner.RunnerError: this host lacks a requirement.
    """
    program = executable()
    check_lab(proxies=pep is not None)
    folder = folder_name(CONTROL_FOLDER)
    environment = {**os.environ, ACCESS_VARIABLE: access}
    command_line = list(command)
    files: dict[str, str] = {}
    if not command_line:
        command_line, variables, files = build_prompt(
            os.environ.get("SHELL", "/bin/sh"), access, folder, environment
        )
        environment |= variables
    control = environment[CONTROL] = str(folder / "socket")
    # The lab creates its namespaces while this process imports the planner.
    with defer_signals(), start_lab(program, [folder], env=environment) as lab:
        from bentpipe.lab.access import resolve_shared_path
        from bentpipe.lab.path_check_cache import load_check, save_check

        path = resolve_shared_path(access, overrides, users=users, mix=mix, pep=pep, has_uplink=outside)
        if seed is not None:
            path = path.with_seed(seed)
        plan: LabPlan = {
            "lab": path.lab, "proxies": path.proxies, "background": path.background,
            "commands": [{"name": "command", "command": command_line}],
            "has_uplink": outside, "forwards_localhost": True, "has_status_display": watch, "control": control,
        }  # fmt: skip
        cached = load_check(plan, program) if check is None else None
        plan["check"] = check is not False and cached is None
        if cached is not None:
            plan["calibrations"] = cached.calibrations
        if record is not None:
            if record.exists() and (not record.is_dir() or any(record.iterdir())):
                raise ScenarioError([("--record", f"{record} exists, expected a new directory")])
            record.mkdir(parents=True, exist_ok=True)
            (record / "plan.json").write_bytes(to_json(plan, indent=1) + b"\n")
            plan["record"] = {"directory": str(record.absolute()), "interval_ns": RECORD_INTERVAL_NS}
        result = folder / "result.json" if record is None else record.absolute() / "result.json"
        plan["result"] = str(result)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        if cached is not None and on_message is not None:
            on_message(cached.line())
        lab.send(plan)
        status = lab.wait()[0]
        if status and not result.exists() and (missing := first_missing(proxies=False)):
            raise RunnerError("; ".join(missing))
        if plan["check"] and result.exists():
            save_check(plan, program, json.loads(result.read_text(encoding="utf-8")))
        return status


ACCESS_VARIABLE = "BENTPIPE_ACCESS"
"""Environment variable with the name of the access that a command runs over."""

RECORD_INTERVAL_NS = 100_000_000
"""Interval between two rows of a recording, ns: the emulator updates its counters as often."""


def run_plan(plan: LabPlan | Mapping[str, Any]) -> int:
    """Run the plan of a lab and return the exit status of its first client command.

    The status is 2 if the lab could not start. The lab ends with this process and leaves no process or
    directory behind.

    Args:
        plan: the plan (:class:`bentpipe.lab.process_plans.LabPlan`).

    Raises:
        ScenarioError: the plan is invalid, or ``bentpipe-rt`` is not built.
    """
    from bentpipe.lab.plan_validation import validate_plan

    valid_plan = validate_plan(plan)
    with defer_signals(), start_lab(executable(), []) as lab:
        lab.send(valid_plan)
        return lab.wait()[0]


class InterruptedLab(KeyboardInterrupt):
    """Ctrl-C during a lab. Its commands have received it too."""

    def __init__(self, result: dict[str, Any]) -> None:
        """Store ``result``, the measurements until Ctrl-C."""
        super().__init__("the session was interrupted")
        self.result = result


def run_lab(plan: LabPlan | Mapping[str, Any]) -> dict[str, Any]:
    """Run the plan of a lab and return its result (docs/reference/lab-plan.md describes both, key by key).

    The lab ends with this process and leaves no process or directory behind.

    Args:
        plan: the plan (:class:`bentpipe.lab.process_plans.LabPlan`).

    Raises:
        ScenarioError: the plan is invalid, or ``bentpipe-rt`` is not built.
        LabError: the lab could not start; ``bentpipe-rt`` has reported the reason.
        bentpipe.runners.runner.RunnerError: this host lacks a requirement.
        InterruptedLab: Ctrl-C; the lab has ended cleanly.
    """
    from bentpipe.lab.plan_validation import validate_plan

    valid_plan = validate_plan(plan)
    check_lab(proxies=bool(valid_plan.get("proxies")))
    folder = folder_name("bentpipe-session-")
    result = folder / "result.json"
    with defer_signals(), start_lab(executable(), [folder]) as lab:
        lab.send({**valid_plan, "result": str(result)})
        status, interrupted = lab.wait()
        if not result.exists():
            if interrupted:
                raise InterruptedLab({})
            raise LabError(f"the emulator ended with status {status} without a result")
        content: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        if interrupted:
            raise InterruptedLab(content)
        return content
