"""``bentpipe shell``: any command behind an emulated access.

The path is planned here and carried by the executable ``bentpipe-rt`` (crates/rt), which needs Linux, ``ip`` and
``/dev/net/tun``; as root, or as an ordinary user where the kernel gives user namespaces.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan import make, open_document
from bentpipe.presets import presets
from bentpipe.problems import ScenarioError, unknown_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["MTU", "SessionError", "carry", "executable", "lab", "run", "session"]


class SessionError(RuntimeError):
    """A session in real time could not be."""


MTU = 1500
"""Of the emulated link: Ethernet's."""


def executable() -> Path:
    """Where ``bentpipe-rt`` is: ``$BENTPIPE_RT``, beside the package, in the checkout's build, on the path.

    Raises:
        ScenarioError: nowhere; with the command that builds it.
    """
    package = Path(__file__).parent
    named = os.environ.get("BENTPIPE_RT")
    on_path = shutil.which("bentpipe-rt")
    places = [
        *([Path(named)] if named else []),
        package / "bentpipe-rt",
        package.parents[1] / "target" / "release" / "bentpipe-rt",
        *([Path(on_path)] if on_path else []),
    ]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ScenarioError([("", "bentpipe-rt is not built; in a checkout: make rt")])
    return found


def lab(access: str, overrides: Sequence[tuple[str, object]] = ()) -> dict[str, Any]:
    """The path of a preset, or of a scenario file, as the emulator reads it (``LabSpec`` of crates/emu).

    Raises:
        ScenarioError: no such preset; what is wrong with the scenario.
    """
    if access.endswith(".toml") or Path(access).is_file():
        document = open_document(access, overrides)
    else:
        names = [preset.name for preset in presets()]
        if access not in names:
            raise ScenarioError([("ACCESS", unknown_word(access, names, "preset"))])
        data = {
            "title": access,
            "duration": "1 h",
            "path": {"preset": access},
            "flow": [{"name": "shell", "congestion": "cubic"}],
        }
        document = open_document(data, overrides)
    spec = make(document, "").runs[0].spec
    flow = spec["flows"][0]
    return {
        "graph": spec["graph"],
        "client": flow["client"],
        "server": flow["server"],
        "seed": spec["seed"],
        "mtu": MTU,
    }


def run(
    access: str,
    command: Sequence[str],
    *,
    overrides: Sequence[tuple[str, object]] = (),
    check: bool = True,
    outside: bool = True,
) -> int:
    """Runs ``command`` behind ``access``; returns its exit status.

    Args:
        access: a preset, or a scenario file.
        command: the command and its arguments; a shell without.
        overrides: dotted keys and values, as ``--set`` gives them.
        check: measure round-trip time and rates before the command starts.
        outside: as root, let the command reach what this machine reaches.

    Raises:
        ScenarioError: as :func:`lab`, and when ``bentpipe-rt`` is not built.
    """
    words = list(command) or [os.environ.get("SHELL", "/bin/sh")]
    plan = {
        "lab": lab(access, overrides),
        "near": [{"name": "command", "command": words}],
        "check": check,
        "outside": outside,
    }
    return carry(plan)


def carry(plan: Mapping[str, Any]) -> int:
    """Carries out the plan of a session (``lab::Plan`` of crates/rt); returns the exit status of its first near
    command, or 2 when the session could not be.

    Whatever ends this process ends the session, and nothing of it is left.

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built.
    """
    program = executable()
    with tempfile.TemporaryDirectory(prefix="bentpipe-shell-") as folder:
        file = Path(folder) / "plan.json"
        file.write_text(json.dumps(plan), encoding="utf-8")
        with subprocess.Popen([str(program), "lab", str(file)]) as process:
            while True:
                try:
                    return process.wait()
                except KeyboardInterrupt:
                    continue  # Ctrl-C is the command's


def session(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Carries out the plan of a session and returns its result (``lab::Outcome`` of crates/rt).

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built.
        SessionError: the session could not be; ``bentpipe-rt`` has said why.
    """
    with tempfile.TemporaryDirectory(prefix="bentpipe-session-") as folder:
        result = Path(folder) / "result.json"
        status = carry({**plan, "result": str(result)})
        if not result.exists():
            raise SessionError(f"the emulator ended with status {status} before there was a result")
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return found
