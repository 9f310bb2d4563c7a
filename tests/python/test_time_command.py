"""Tests of ``bentpipe time``: errors before a lab starts, numbers, and a command with a known duration."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest

import commands
import realtime
from bentpipe.lab import command_timing as comparing
from bentpipe.lab.access import resolve_shared_path
from bentpipe.lab.path_summary import describe_access
from bentpipe.report import timing_page

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.lab.access import SharedPath

NEAR, FAR = "lte-4g", "geo-konnect"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            f"{NEAR} {FAR} -- no-such-command-here x",
            'CMD: command "no-such-command-here" not found, or not executable',
        ),
        (f"{NEAR} {FAR}", "CMD: missing, expected -- and a command after the accesses"),
        (f"{NEAR} {FAR} --", "CMD: missing, expected -- and a command after the accesses"),
        (f"{NEAR} geo-konect -- true", 'ACCESS: no preset "geo-konect", expected one of: adsl, '),
        (
            f"{NEAR} --report no/such/folder.html -- true",
            "--report: no/such/folder.html cannot be written, expected a",
        ),
        (f"{NEAR} --pep earyl -- true", '--pep: no set-up "earyl", expected one of: early, relayed'),
        (f"{NEAR} --background-mix call=1 -- true", "--background-mix: requires --background-users"),
        (f"{NEAR} --background-users 0 -- true", "--background-users: found 0"),
        (
            f"{NEAR} --set seeds=[2] -- true",
            "--set seeds: run k has seed k, expected --runs with the number of runs",
        ),
        (f"{NEAR} {NEAR} -- true", f'ACCESS: duplicate access "{NEAR}"'),
        (
            f"{NEAR} --export-json no/such/folder.json -- true",
            "--export-json: no/such/folder.json cannot be written, expected a",
        ),
    ],
)
def test_errors_are_reported_before_any_lab(tmp_path: Path, words: str, message: str) -> None:
    program = tmp_path / "bentpipe-rt"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    done = commands.bentpipe(
        tmp_path, "time", *words.split(), environment={**os.environ, "BENTPIPE_RT": str(program)}
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}"), done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "started").exists()


def test_rounds_are_interleaved_and_the_numbers_those_of_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three presets with times that are known; each round begins with the next access, the first two do not count."""
    order: list[str] = []
    base = {"ftth": 1.0, "adsl": 2.0, "oneweb": 4.0}

    def once(access: str, _path: object, _command: object) -> tuple[float, tuple[str, ...]]:
        order.append(access)
        turn = (len(order) - 1) // 3
        return base[access] * (100 if turn < 2 else 1 + 0.1 * (turn - 2)), (
            "late",
            "full",
        ) if turn == 3 else ()

    monkeypatch.setattr(comparing, "_time_once", once)
    found = {one.access: one for one in comparing.time_command(list(base), ["true"], runs=3, warmup=2)}
    assert order[:9] == ["ftth", "adsl", "oneweb", "adsl", "oneweb", "ftth", "oneweb", "ftth", "adsl"]
    assert len(order) == 15
    assert found["adsl"].seconds == pytest.approx((2.0, 2.2, 2.4))
    assert found["adsl"].mean == pytest.approx(2.2)
    assert found["adsl"].deviation == pytest.approx(0.2)
    assert [one.invalid for one in found.values()] == [{2: "late; full"}] * 3
    assert found["ftth"].ratio is None
    # what all accesses have in common in a round cancels out: the ratio is 4 in every one
    ratio = found["oneweb"].ratio
    assert ratio is not None
    assert (ratio.estimate, ratio.low, ratio.high) == pytest.approx((4.0, 4.0, 4.0))
    row = found["adsl"].as_row()
    assert (row["min_s"], row["max_s"], row["ratio"]) == pytest.approx((2.0, 2.4, 2.0))


def test_every_access_has_the_proxy_and_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: dict[str, SharedPath] = {}

    def once(access: str, path: SharedPath, _command: object) -> tuple[float, tuple[str, ...]]:
        paths[access] = path
        return 1.0, ()

    monkeypatch.setattr(comparing, "_time_once", once)
    comparing.time_command([NEAR, FAR], ["true"], runs=1, pep="early", users=3, mix="tcp=1")
    for path in paths.values():
        assert [proxy["handshake"] for proxy in path.proxies] == ["early"]
        assert path.background is not None
        assert len(path.background["flows"]) == 3
        assert path.background["graph"] == path.lab["graph"]
    comparing.time_command([FAR], ["true"], runs=1)
    assert paths[FAR].background is None
    if os.geteuid() == 0:
        assert not paths[FAR].proxies


def test_each_run_has_a_seed_and_all_accesses_of_a_round_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed changes neither the graph nor anything else of the plan, so that a path without random parts stays."""
    seeds: dict[str, list[tuple[int, int | None]]] = {"starlink": [], NEAR: []}
    graphs = []

    def once(access: str, path: SharedPath, _command: object) -> tuple[float, tuple[str, ...]]:
        seeds[access].append((path.lab["seed"], path.background["seed"] if path.background else None))
        if access == NEAR:
            graphs.append({**path.lab, "seed": 0})
        return 1.0, ()

    monkeypatch.setattr(comparing, "_time_once", once)
    star, near = comparing.time_command(["starlink", NEAR], ["true"], runs=3, warmup=2)
    assert seeds["starlink"] == seeds[NEAR] == [(1, None), (1, None), (1, None), (2, None), (3, None)]
    assert all(graph == graphs[0] for graph in graphs)
    assert star.is_stochastic
    assert not near.is_stochastic
    busy = comparing.time_command([NEAR], ["true"], runs=2, users=2)
    assert seeds[NEAR][-2:] == [(1, 1), (2, 2)]
    assert busy[0].is_stochastic


def describe(access: str, *overrides: tuple[str, object], pep: str | None = None) -> str:
    path = resolve_shared_path(access, overrides, pep=pep)
    return describe_access(access, path, is_preset_changed=bool(overrides), pep=pep)


def test_an_access_is_described_by_its_numbers_and_their_origin(tmp_path: Path) -> None:
    assert describe(NEAR) == "4G, France 2018 (measured), 5 Mbit/s down, 2.5 Mbit/s up, RTT 80 ms"
    starlink = "Starlink as measured, 34 to 71 Mbit/s down, 5.2 to 10.9 Mbit/s up, RTT 16 to 156 ms"
    assert describe("starlink") == starlink
    konnect = "Konnect (KA-SAT), France (measured), 25 Mbit/s down, 5 Mbit/s up, RTT 750 ms"
    assert describe(FAR) == f"{konnect}, without PEP (--pep early or relayed adds one)"
    assert describe(FAR, pep="early") == f"{konnect}, with PEP (early)"
    assert describe(NEAR, pep="relayed").endswith("RTT 80 ms, with PEP (relayed)")
    changed = describe(FAR, ("path.konnect.delay", "100 ms"))
    assert changed == "Konnect (KA-SAT), France (with --set), 25 Mbit/s down, 5 Mbit/s up, RTT 200 ms"
    scenario = tmp_path / "two.toml"
    scenario.write_text(
        '[[path.segment]]\nname = "radio"\ndelay = "10 ms"\nboth = { rate = "10 Mbit/s" }\n'
        '[[path.segment]]\nname = "fibre"\ndelay = "5 ms"\ndown = { rate = "4 Mbit/s" }\n'
    )
    assert describe(str(scenario)) == "4 Mbit/s down, 10 Mbit/s up, RTT 30 ms"
    with scenario.open("a") as file:
        file.write('[[path.proxy]]\nname = "gateway"\nbetween = ["radio", "fibre"]\nhandshake = "relayed"\n')
    assert describe(str(scenario), pep="early").endswith("RTT 30 ms, with PEP (relayed)")


def test_the_headline_has_every_access_and_the_ratios_of_the_table() -> None:
    seconds = {"slow": (8.0, 18.0), "fast": (1.0, 2.0), "middle": (2.0, 2.0)}
    report = timing_page.TimingReport("curl x", seconds, [], [])
    text = "curl x takes 1.5 s over fast, 2 s over middle (1.41 times as long) and 13 s over slow (8.49 times as long)."
    assert timing_page.headline_text(report) == text


def test_a_page_has_every_run_and_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    times = iter([(1.0, ()), (4.0, ()), (5.0, ("radio down: 3 packets late",)), (1.5, ())])
    monkeypatch.setattr(comparing, "_time_once", lambda *_: next(times))
    words = f"{NEAR} {FAR} --runs 2 --pep relayed --background-users 1 --report times.html --export-json times.json"
    done = commands.bentpipe(tmp_path, "time", *words.split(), "--", "sh", "-c", "exit 0 </dev/null")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "times.html"
    invalid = "the lab missed its deadlines in 1 of 2 runs, which count: run 2 (radio down: 3 packets late)"
    assert done.stderr.splitlines()[-1] == f"warning: {FAR}: {invalid}"
    page = (tmp_path / "times.html").read_text()
    for text in (
        f"takes 1.25 s over {NEAR} and 4.5 s over {FAR} (3.65 times as long).",
        f"{NEAR}: 4G, France 2018 (measured), 5 Mbit/s down, 2.5 Mbit/s up, RTT 80 ms",
        f"run k has seed k; each run draws other random values of {NEAR}, {FAR}",
        "2 runs over each access network",
        "A proxy (relayed) splits TCP",
        "1 simulated user shares each access",
        f"{FAR}: {invalid}.",
        "sh -c &#39;exit 0 &lt;/dev/null&#39;",
    ):
        assert text in page.replace("\u00a0", " "), text
    assert f"seeds: run k has seed k; each run draws other random values of {NEAR}, {FAR}" in done.stdout
    found = json.loads((tmp_path / "times.json").read_text())
    assert found["seeds"] == [1, 2]
    assert found["accesses"][1]["invalid_runs"] == [{"run": 2, "reason": "radio down: 3 packets late"}]
    assert (found["pep"], found["background_users"]) == ("relayed", 1)
    assert [one["seconds"] for one in found["accesses"]] == [[1.0, 1.5], [4.0, 5.0]]
    report = timing_page.TimingReport("sh", {NEAR: (1.0, 1.5), FAR: (4.0, 5.0)}, [], [])
    drawn = timing_page.figure(report)
    assert drawn.rows == 4
    drawn.write(tmp_path / "times.svg")


PATH = """
[[path.segment]]
name = "satellite"
delay = "{} ms"
both = {{ rate = "10 Mbit/s" }}
"""
CONNECT = "import os, socket; socket.create_connection((os.environ['BENTPIPE_SERVER'], {})).close()"


@pytest.mark.lab
def test_a_connection_takes_a_round_trip_more_behind_the_longer_path(tmp_path: Path) -> None:
    realtime.need_namespaces()
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    (tmp_path / "near.toml").write_text(PATH.format(10))
    (tmp_path / "far.toml").write_text(PATH.format(260))
    with socket.create_server(("", 0)) as server:
        program = CONNECT.format(server.getsockname()[1])
        words = [
            "far.toml",
            "near.toml",
            "--runs",
            "2",
            "--export-json",
            "times.json",
            "--",
            sys.executable,
            "-S",
            "-c",
            program,
        ]
        with realtime.resting() as at_rest:
            done = commands.process(tmp_path, "time", *words, environment=environment)
            rested = at_rest()
    assert done.returncode == 0, done.stderr
    far, near = json.loads((tmp_path / "times.json").read_text())["accesses"]
    assert (far["access"], near["access"]) == ("far.toml", "near.toml")
    assert min(far["seconds"]) > 0.52
    assert min(near["seconds"]) > 0.02
    ratios = [long / short for long, short in zip(far["seconds"], near["seconds"], strict=True)]
    assert math.isclose(far["ratio"], math.prod(ratios) ** (1 / len(ratios)))
    assert far["ratio_low"] <= far["ratio"] <= far["ratio_high"]
    assert "far.toml " in done.stdout
    failing = ["near.toml", "--runs", "1", "--", "sh", "-c", "echo no such luck >&2; exit 7"]
    done = commands.process(tmp_path, "time", *failing, environment=environment)
    assert done.returncode == 1
    assert done.stderr == "error: over near.toml: sh ended with status 7: no such luck\n"
    # half a second of round trip lies between them; the interpreter's start is in both, and the least has least of it
    apart = min(far["seconds"]) - min(near["seconds"])
    if apart != pytest.approx(0.5, abs=0.2) and not rested:
        realtime.give_up(f"{apart:.2f} s apart")
    assert apart == pytest.approx(0.5, abs=0.2)
