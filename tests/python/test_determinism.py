"""Same seed, same bytes: over repeats, with the processor's FMA masked, and against the recorded hash.

glibc chooses its mathematical functions by processor, and those with FMA round differently; the engine takes
its own from a library that does not. ``make golden`` records the hashes anew after a wanted change.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine

CONTROLLERS = tuple(
    entry["scenario_name"] for entry in engine.catalogue() if entry["scenario_name"] != "fixed"
)
RECORD = Path(__file__).with_name("golden.json")
WITHOUT_FMA = "glibc.cpu.hwcaps=-FMA,-AVX2"

SCENARIO = {
    "title": "Every controller over a path with every kind of chance",
    "duration": "12 s",
    "path": {
        "segment": [
            {
                "name": "satellite",
                "delay": "125 ms",
                "both": {"rate": "8 Mbit/s", "queue": "1 BDP"},
                "up": {
                    "loss": "0.2 %",
                    "jitter": {"normal": {"mean": "2 ms", "deviation": "1 ms"}, "reorder": False},
                },
            }
        ]
    },
    "flow": [
        {"name": "bulk", "congestion": "cubic"},
        {
            "name": "short",
            "congestion": "cubic",
            "direction": "down",
            "load": {"poisson": {"interval": "1 s", "size": {"exponential": "100 kB"}}},
        },
    ],
    "sweep": {"flow.bulk.congestion": list(CONTROLLERS)},
}

BUNDLES = {
    "title": "Bundles by a relay, cut, lost, expired and acknowledged",
    "duration": "8 s",
    "graph": {
        "node": ["one", "relay", "six"],
        "link": [
            {
                "name": f"{one}-{other}",
                "client_side": one,
                "server_side": other,
                "delay": "40 ms",
                "both": {"rate": "8 Mbit/s", "loss": "1 %"},
            }
            for one, other in (("one", "six"), ("one", "relay"), ("relay", "six"))
        ],
    },
    "flow": [
        {
            "name": f"{one}-{other}",
            "client": one,
            "server": other,
            "congestion": "cubic",
            "load": {"bundles": {"layer": "quiccl"} | ({"dtnperf": words} if words else {})},
        }
        for one, other, words in (
            ("one", "six", "-W 12 -P 200k -l 3 -C -f -r --del"), ("one", "relay", ""), ("relay", "six", ""),
        )
    ],
    "dtn": {
        "contact": [
            {"from": one, "to": other, "start": start, "stop": stop, "rate": "8 Mbit/s", "owlt": "40 ms", "both": True}
            for one, other, start, stop in (
                ("one", "six", "0 s", "2 s"), ("one", "six", "5 s", "60 s"),
                ("one", "relay", "0 s", "60 s"), ("relay", "six", "0 s", "60 s"),
            )
        ]
    },
    "sweep": {"flow.one-six.congestion": ["cubic", "bbr"]},
}  # fmt: skip

ENGINE = """
import hashlib, json, sys
from bentpipe.runners import engine
for spec in json.load(sys.stdin):
    data = engine.run(json.dumps(spec))
    length = int.from_bytes(data[:8], "little")
    head = json.loads(data[8:8 + length])
    del head["engine"]  # a hash of the sources, which may change without the results
    print(hashlib.sha256(json.dumps(head, sort_keys=True).encode() + data[8 + length:]).hexdigest())
"""


def hashes(tunables: str | None, scenario: dict[str, Any] = SCENARIO) -> list[str]:
    """The hash of every run's measurements, from a fresh process."""
    plan = build_plan(load_scenario(scenario), engine.version())
    environment = {key: value for key, value in os.environ.items() if key != "GLIBC_TUNABLES"}
    if tunables:
        environment["GLIBC_TUNABLES"] = tunables
    done = subprocess.run(
        [sys.executable, "-c", ENGINE],
        input=json.dumps([run.spec for run in plan.runs]),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_repeats_and_masked_fma_give_the_same_bytes() -> None:
    plain = hashes(None)
    assert len(set(plain)) == len(CONTROLLERS), "the runs differ from each other"
    assert plain == hashes(None), "a repeat differs"
    assert plain == hashes(WITHOUT_FMA), "masking FMA changes results"


def test_bundle_nodes_give_the_same_bytes_with_masked_fma() -> None:
    plain = hashes(None, BUNDLES)
    assert len(set(plain)) == 2, "the runs differ from each other"
    assert plain == hashes(WITHOUT_FMA, BUNDLES), "masking FMA changes results"


def test_results_are_those_recorded() -> None:
    got = dict(zip(CONTROLLERS, hashes(None), strict=True))
    if os.environ.get("BENTPIPE_UPDATE"):
        RECORD.write_text(json.dumps(got, indent=2) + "\n")
    recorded = json.loads(RECORD.read_text())
    if got != recorded:
        changed = [name for name in CONTROLLERS if got[name] != recorded[name]]
        pytest.fail(f"results changed for {', '.join(changed)}; if that is wanted: make golden")
