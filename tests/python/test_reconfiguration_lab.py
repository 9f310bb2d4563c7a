"""Slots in real time: a command behind a path meets the delays that the same seed has in virtual time, slot by slot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import realtime
from bentpipe.lab.access import resolve_path
from traced_runs import made, spec_of

SLOT_S, PHASE_S, SECONDS = 2.0, 1.0, 19
PATH = """
[[path.segment]]
name = "dish"
down = { rate = "20 Mbit/s" }
[path.segment.up]
rate = "20 Mbit/s"
reconfiguration = { interval = "2 s", phase = "1 s", delay = ["5 ms", "40 ms", "120 ms"], loss_bursts = { probability = "100 %", duration = ["300 ms"] } }
"""

PROBE = """
import json, os, socket, sys, threading, time
far = (os.environ["BENTPIPE_SERVER"], int(sys.argv[1]))
end = time.monotonic() + float(sys.argv[2])
ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ours.settimeout(0.5)
sent, took = {}, {}
def hear():
    while time.monotonic() < end + 0.4:
        try:
            number = int(ours.recv(100))
        except OSError:
            continue
        took[number] = time.monotonic() - sent[number]
threading.Thread(target=hear).start()
begin, number = time.monotonic(), 0
while time.monotonic() < end:
    sent[number] = time.monotonic()
    ours.sendto(str(number).encode(), far)
    number += 1
    time.sleep(0.02)
time.sleep(1)
print(json.dumps([[at - begin, took.get(n)] for n, at in sent.items()]))
"""

ECHO = """
import socket
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.bind(("", 0))
print(here.getsockname()[1], flush=True)
while True:
    data, who = here.recvfrom(2000)
    here.sendto(data, who)
"""


def slots_in_virtual_time(seed: int) -> list[tuple[float, float]]:
    """When a slot begins, s, and its delay, ms."""
    steady = {"on_off": {"on": "1 s", "off": "1 ms", "rate": "1 Mbit/s", "time": f"{SECONDS} s"}}
    data: dict[str, Any] = {
        **tomllib.loads(PATH),
        "duration": f"{SECONDS} s",
        "trace": {"packet_steps": True},
        "flow": [{"name": "shell", "congestion": "cubic", "direction": "up", "load": steady}],
    }
    spec = {**spec_of(data), "seed": seed}
    place = [stage["kind"] for stage in spec["graph"]["links"][0]["up"]].index("reconfiguration_delay")
    steps = made(spec)["packet_steps"].filter(pl.col("link") == "dish.up")
    come = steps.filter(pl.col("stage") == place).select("packet", come="at_ns")
    gone = steps.filter(pl.col("stage") == place + 1).select("packet", gone="at_ns")
    passed = come.join(gone, on="packet").with_columns(
        slot=((pl.col("come") / 1e9 - PHASE_S) / SLOT_S).floor(), ms=(pl.col("gone") - pl.col("come")) / 1e6
    )
    middle = passed.group_by("slot").agg(pl.col("ms").median()).sort("slot")
    return [(PHASE_S + SLOT_S * slot, ms) for slot, ms in middle.select("slot", "ms").iter_rows()]


Probes = list[tuple[float, float | None]]


def bursts(probes: Probes) -> list[tuple[float, float]]:
    """Runs of five losses and more: their first and their last instant."""
    found: list[list[float]] = []
    for at, took in probes:
        if took is None and found and at - found[-1][-1] < 0.1:
            found[-1].append(at)
        elif took is None:
            found.append([at])
    return [(run[0], run[-1]) for run in found if len(run) >= 5]


def middles(probes: Probes, slots: list[tuple[float, float]]) -> dict[float, float]:
    """The median of what was measured in each slot that was seen whole, ms, by the slot's delay."""
    found = {}
    for begin, ms in slots:
        seen = sorted(
            1000 * took for at, took in probes
            if took is not None and begin + 0.45 < at < begin + SLOT_S - 0.1
        )  # fmt: skip
        if begin >= PHASE_S and len(seen) >= 30:
            found[ms] = seen[len(seen) // 2]
    return found


@pytest.mark.lab
@pytest.mark.nightly
def test_a_shell_has_the_slots_of_virtual_time(tmp_path: Path) -> None:
    realtime.need_namespaces()
    scenario = tmp_path / "dish.toml"
    scenario.write_text(PATH)
    slots = slots_in_virtual_time(resolve_path(str(scenario))[0]["seed"])
    assert len({round(ms) for _, ms in slots}) > 5
    with subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True) as echo:
        try:
            assert echo.stdout is not None
            port = echo.stdout.readline().strip()
            for _ in range(3):
                probes = _probed(scenario, port)
                # the path's time begins shortly before the command; a handover gives the difference
                (first, _), *_ = bursts(probes)
                shift_s = (PHASE_S - first) % SLOT_S
                probes = [(at + shift_s, took) for at, took in probes]
                found = middles(probes, slots)
                handed = bursts(probes)
                off = [burst for burst in handed if not _where_a_slot_begins(*burst)]
                # a probe that waits for its processor sees less of what is lost
                late = max(later - at for (at, _), (later, _) in pairwise(probes)) > 0.04
                messages = (
                    not late and len(found) >= 7 and all(abs(took - ms) < 5 for ms, took in found.items())
                )
                if messages and not off:
                    break
            else:
                if not messages:
                    realtime.give_up(f"probes late: {late}, {found}")
        finally:
            echo.kill()
    assert all(took > ms - 0.5 for ms, took in found.items()), "no sooner than the slot's delay"
    assert len(handed) >= 7
    assert not off


def _where_a_slot_begins(begin: float, end: float) -> bool:
    """Everything is lost for 300 ms, 20 ms apart."""
    at = (begin - PHASE_S + SLOT_S / 2) % SLOT_S - SLOT_S / 2
    return abs(at) <= 0.06 and (abs(end - begin - 0.27) <= 0.06 or end > SECONDS - 3)


def _probed(scenario: Path, port: str) -> Probes:
    command = [
        sys.executable,
        "-m",
        "bentpipe.cli",
        "shell",
        str(scenario),
        "--isolated",
        "--no-path-check",
        "--",
    ]
    command += [sys.executable, "-c", PROBE, port, str(SECONDS - 2)]
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    probes: Probes = json.loads(done.stdout)
    return probes
