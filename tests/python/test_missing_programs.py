"""A machine on which there can be no lab: one line with the step that helps, and nothing left running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import realtime
from bentpipe.doctor import examine
from nightly import keep

SCENARIO = """
duration = "1 s"
seeds = 3
[[path.segment]]
name = "satellite"
delay = "20 ms"
both = { rate = "10 Mbit/s" }
[[flow]]
name = "q"
congestion = "cubic"
direction = "down"
load = { bytes = "200 kB" }
"""
PROXY = """
[[path.segment]]
name = "ground"
delay = "5 ms"
[[path.proxy]]
name = "gateway"
between = ["satellite", "ground"]
handshake = "early"
client_side = { congestion = { name = "cubic", slow_start_exit = "classic", avoidance = "linux" } }
"""
WITHOUT = {
    "ip": ("iproute2", "{hidden}"),
    "nft": ("nftables", "{hidden}"),
    "no TUN": ("modprobe tun; in a container: --device /dev/net/tun", "mount --bind {empty} /dev/net"),
    "TUN not allowed": (
        "chmod 0666 /dev/net/tun",
        "mount -t tmpfs none /dev/net && mknod /dev/net/tun c 10 200 && mount -o remount,nodev /dev/net",
    ),
}
"""By removed requirement: the expected text, and the command that removes it in a mount namespace."""

Bare = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=list(WITHOUT))
def without(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bare(without: str, tmp_path: Path) -> Bare:
    """Runs bentpipe on a machine without it."""
    realtime.need_namespaces("nft", "mount")
    realtime.need_root("hiding a part of the machine")
    empty, folder, saved = tmp_path / "empty", tmp_path / "bin", tmp_path / "kept"
    for place in (empty, folder, saved):
        place.mkdir()
    for path in os.environ["PATH"].split(":"):
        for file in Path(path).glob("*") if path else ():
            if file.name != without and not (folder / file.name).is_symlink():
                target = Path(os.path.realpath(file))
                hidden = target.parent == Path("/usr/sbin")
                (folder / file.name).symlink_to(saved / target.name if hidden else target)
    hidden_by = (
        f"mount --bind /usr/sbin {saved} && mount --bind {empty} /usr/sbin && "
        f"{{ [ -L /sbin ] || mount --bind {empty} /sbin; }}"
    )
    hides = WITHOUT[without][1].format(hidden=hidden_by, empty=empty)
    for name, text in (("plain", SCENARIO), ("split", SCENARIO.replace("[[flow]]", PROXY + "[[flow]]"))):
        (tmp_path / f"{name}.toml").write_text(text)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        script = f'{hides} && exec "$@"'
        command = [
            "unshare", "--mount", "sh", "-c", script, "sh",
            "env", f"PATH={folder}" if "hidden" in WITHOUT[without][1] else "A=B",
            sys.executable, "-m", "bentpipe.cli", *words,
        ]  # fmt: skip
        environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert not realtime.running(str(tmp_path)), "something is left behind"
        return done

    return run


@pytest.mark.lab
@pytest.mark.parametrize("command", keep(["doctor"], ["shell", "run", "doctor"]))
def test_missing_requirements_are_reported_once_with_the_remedy(
    bare: Bare, without: str, command: str, tmp_path: Path
) -> None:
    help_ = WITHOUT[without][0]
    scenario = "split" if without == "nft" else "plain"
    if command == "doctor":
        rows = json.loads(bare("doctor", "--json").stdout)
        row = next(one for one in rows if help_ in one["found"])
        assert not row["good"], row
        return
    if command == "shell":
        done = bare("shell", f"{scenario}.toml", "--no-path-check", "--isolated", "--", "sleep", "99")
    else:
        done = bare("run", f"{scenario}.toml", "--engine", "emu", "--out", "store")
        assert not list((tmp_path / "store").glob("runs/*"))
    assert done.returncode == 2, done
    # A slow machine also gets the progress of the plan.
    message = [line for line in done.stderr.splitlines() if not line.startswith("planning: ")]
    assert len(message) == 1, done.stderr
    for word in help_.split("; in a container"):
        assert word.split(":")[0] in done.stderr


def test_doctor_tries_a_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All the means are there, and still a lab cannot be."""
    program = tmp_path / "bentpipe-rt"
    monkeypatch.setenv("BENTPIPE_RT", str(program))
    for text, good, found in (
        ("cat $2 > /dev/null; echo bentpipe: /dev/net/tun: busy >&2; exit 2", False, "/dev/net/tun: busy"),
        ("cat $2 > /dev/null", True, "started and stopped"),
    ):
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        row = next(one for one in examine() if one.what == "test lab (emulation)")
        assert row.good is good
        assert found in row.found


@pytest.mark.lab
@pytest.mark.parametrize("without", ["nft"], indirect=True)
def test_missing_requirements_are_reported_before_the_path_check(bare: Bare) -> None:
    """Measuring takes seconds, and what it finds is of no use without a way outside."""
    done = bare("shell", "plain.toml", "--", "true")
    assert done.returncode == 2, done
    assert "nft" in done.stderr
    assert "nftables" in done.stderr
    assert "measured RTT" not in done.stderr
