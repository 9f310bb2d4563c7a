"""Every command that needs a lab names in one line what the machine lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import realtime
from bentpipe.lab import requirements
from bentpipe.runners.runner import RunnerError

ROOT = Path(__file__).parents[2]
PATH = """
duration = "2 s"
[[path.segment]]
name = "satellite"
delay = "40 ms"
both = { rate = "10 Mbit/s" }
[[flow]]
name = "any"
transport = "tcp"
congestion = "newreno"
"""
FORMS = [
    ["shell", "path.toml", "--", "true"],
    ["time", "lte-4g", "geo-konnect", "--", "true"],
    ["run", "path.toml", "--engine", "emu", "--out", "store"],
]


@pytest.mark.parametrize("words", FORMS)
@pytest.mark.parametrize(
    ("before", "message"),
    [
        (
            ["unshare", "-Urm", "sh", "-c", 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"', "sh"],
            "network namespaces, as root: not allowed; as root: sysctl user.max_net_namespaces=10000",
        ),
        (
            ["setpriv", "--bounding-set=-sys_admin"],
            "network namespaces, as root: not allowed; in a container: --cap-add SYS_ADMIN --cap-add NET_ADMIN",
        ),
    ],
)
def test_without_namespaces_every_command_says_what_is_missing(
    tmp_path: Path, before: list[str], message: str, words: list[str]
) -> None:
    realtime.need_root("a namespace with a limit of its own")
    realtime.need_namespaces("setpriv")
    (tmp_path / "path.toml").write_text(PATH)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python"), "BENTPIPE_RT": str(realtime.program())}
    done = subprocess.run(
        [*before, sys.executable, "-m", "bentpipe.cli", *words], cwd=tmp_path, env=environment,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("planning: ")]
    assert lines == [f"error: {message}"]


def test_a_machine_that_may_have_labs_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial takes as long as a lab takes to begin."""
    monkeypatch.setattr(requirements, "is_doubtful", lambda: False)
    monkeypatch.setattr(requirements, "first_missing", lambda **_: pytest.fail("it was tried"))
    requirements.check_lab(proxies=False)
    monkeypatch.setattr(requirements, "is_doubtful", lambda: True)
    monkeypatch.setattr(requirements, "first_missing", lambda **_: ["TUN devices: none", "ip: none"])
    with pytest.raises(RunnerError, match=r"^TUN devices: none; ip: none$"):
        requirements.check_lab(proxies=False)
