"""Scenarios with seeded faults: the engine accepts every scenario that `check` accepts.

``python tests/python/mutations.py COUNT [FIRST]`` judges mutants FIRST, FIRST + 1... and prints every fault with the
text that shows it; it ends with 1 if there was one. The same number is the same mutant as long as the scenarios of the
checkout are the same.
"""

from __future__ import annotations

import atexit
import copy
import functools
import json
import random
import re
import sys
import tempfile
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bentpipe.plan.analysis.bounds import bounds
from bentpipe.plan.cost import estimate_cost, estimate_plan, run_weight
from bentpipe.plan.document import load_scenario
from bentpipe.plan.flow.controllers import by_name
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError

ROOT = Path(__file__).parents[2]
PRESETS = ROOT / "python" / "bentpipe" / "presets"

MOST_EVENTS = 100_000.0
"""Limit of the cost estimate of a mutant's short run: a tenth of a second."""

LEAST_NS = 1_000_000

HOSTILE: tuple[Any, ...] = (
    "", "x", "0", "-1", 0, 1, -1, 2**31, 2**63, 2**64, 1e308, 0.5, True, False, [], {}, [{}], "none", "1 ns", "0 s",
    "1 us", "1 ms", "10 ms", "1 s", "1 h", "1000 h", "2600000 h", "1 bit/s", "1 kbit/s", "10 Mbit/s", "100 Gbit/s",
    "1e18 bit/s", "0 %", "100 %", "50 %", "0 B", "1 B", "1 kB", "1 GB", "1e18 B", "1 packets", "1 BDP", "0.001 BDP",
    "1000 BDP", "host", "router", "proxy", "quic", "tcp", "cubic", "bbr", "bbr1", "hybla", "fixed", "up", "down", "both",
    "1-rtt", "0-rtt", "rustls", "modelled", "1.1", "2", "3", "alt-svc", "relayed", "early", "pooled", "é ☃", "a b", "a.b",
    "T:*1:0:-:1s", "T:*100:0:-:1us", "D:*1:0:-:8:99999999", "D:*3:-:-:100:100;D:*1:-:0:100:100",
    {"time": "1 s"}, {"bytes": "1 MB"}, {"bytes": "1 kB", "streams": 1000}, {"poisson": {"interval": "1 ns", "size": "1 B"}},
    {"poisson": {"interval": "10 ms", "size": {"exponential": "10 kB"}}}, {"on_off": {"on": "1 ns", "off": "1 ns"}},
    {"on_off": {"on": "10 ms", "off": "10 ms", "exponential": True, "rate": "1 Mbit/s"}}, {"name": "fixed"}, "udp",
    {"call": "g711"}, {"call": {"codec": "g729", "packet": "200 ms"}}, {"cbr": {"rate": "1e18 bit/s", "packet": "22 B"}},
    {"name": "fixed", "rate_bit_s": 1000000000}, {"page": "almanac-2019-light"}, {"page": "almanac-2019", "http": "2"},
    {"rate": "1 Mbit/s"}, {"delay": "1 ms"}, {"loss": "100 %"}, {"uniform": "1 ms", "reorder": True},
)  # fmt: skip

KEYS: dict[str, dict[str, tuple[Any, ...]]] = {
    "scenario": {
        "sample_interval": ("1 ns", "1 us", "1 ms", "10 s"), "seeds": (1, 2, [0], [3, 3]), "duration": ("1 ns", "1 ms", "1 h"),
        "trace": ({"qlog": True, "pcapng": True, "packets": True},), "limits": ({"events": 1}, {"memory": "1 GB"}),
        "quic": ({},), "tcp": ({},), "page": ({"x": {"object": [{"name": "a", "size": "1 kB"}]}},), "dtn": ({}, {"routing":
        "epidemic"}), "orbit": ({"constellation": "starlink-shell-1", "from": "Paris", "to": "Sydney"},),
    },
    "direction": {
        "aqm": ("codel", "fq-codel", "drop-tail", "drop-head", {"name": "codel", "target": "1 ns", "interval": "1 ns"},
                {"name": "fq-codel", "queues": 1, "quantum": "1 B"},
                {"name": "policer", "rate": "1 bit/s", "burst": "1 B"}),
        "scheduler": ("drop-tail", "round-robin", "maximum-rate", "proportional-fair", "codes", "m-lwdf", "exp-pf", "pf",
                      {"name": "deficit-round-robin", "quantum": "1 B", "weights": {"web": 1000}},
                      {"name": "codes", "time_limit": "1 ns", "queue_scope": "shared"}, {"name": "exp-pf", "window": "1 ns"},
                      {"name": "proportional-fair", "average": "served", "csi_delay": "1 s"}),
        "queue": ("1 packets", "1 BDP/sqrt(n)/n", "9 packets/n", "1 B", "3 kB", "0.1 BDP", "100 GB", "1000 packets", "none"), "loss_position": ("before-queue", "after-queue"),
        "loss": ("0 %", "0.1 %", "100 %", {"burst": {"interval": "1 s", "duration": "1 ms"}},
                 {"gilbert_elliott": {"good_to_bad": "1 %", "bad_to_good": "10 %"}}),
        "outages": ([{"at": "0 s", "duration": "1 s"}], {"windows": [{"at": "1 ms", "duration": "1 ns"}], "repeat": "2 ms"},
                    {"windows": [{"at": "1 ms", "duration": "1 h"}], "buffer_packets": True}),
        "changes": ([{"at": "0 s", "rate": "1 bit/s"}], [{"at": "1 ns", "delay": "1 h"}, {"at": "2 ns", "loss": "1 %"}]),
        "jitter": ({"exponential": "1 s", "reorder": False}, {"uniform": "1 ns", "reorder": True},
                   {"normal": {"mean": "1 ms", "deviation": "9 h"}, "reorder": True}),
        "reorder": ({"probability": "50 %", "delay": "1 h"}, {"probability": "1 %", "delay": "1 ns"}), "netem": (True, False),
        "delay": ("0 s", "1 ns", "10 s", "100 h", {"trace": "delay1.txt", "repeat": "1 ns"}, {"trace": "delay0.txt", "reorder":
                  True, "repeat": "1 s"}), "trace": ("slots0.txt",),
        "channel": ({"model": "white-noise", "snr": "3 dB"}, {"model": "perez-fontan", "snr": "7 dB", "environment": "open",
                    "elevation": "40 deg", "speed": "60 km/h"}, {"model": "rayleigh", "snr": "7 dB", "speed": "28000 km/h"}), "acm":
                    ({"symbol_rate": "1 baud", "report_delay": "1 s"}, {"symbol_rate": "1 Gbaud", "report_delay": 0,
                     "report_interval": "1 us", "hysteresis": "100 dB"}), "reordering_buffer": (0, 1, {"time_limit": "1 ns"}),
        "link_layer": ({"scheme": "adaptive-harq", "frame": "1 B"}, {"scheme": "go-back-n", "frame": "1 kB", "feedback_delay":
                       "1 ns", "feedback_loss": "50 %"}, {"scheme": "harq-1", "frame": "65535 B", "block_error_rate": ["100 %"]},
                       {"scheme": "adaptive-harq", "frame": "1 kB", "feedback_delay": "100 h"}),
        "nr": ({"block_error_rate": ["10 %"]}, {"block_error_rate": ["100 %"], "rlc": "um", "feedback_disabled_processes": 16}, {"slot":
               "16 us", "repetitions": 8, "processes": 1, "code_rate": "1/1000", "feedback_delay": "100 h"}),
        "reconfiguration": ({"rate": ["1 bit/s", "1 Mbit/s"]}, {"interval": "1 ns", "delay": ["0 s", "1 h"], "delay_jitter": ["1 ms"]},
                  {"interval": "1 s", "phase": "999 ms", "loss": ["0 %", "100 %"], "loss_bursts": {"probability": "50 %", "duration":
                  ["1 ms", "2 s"]}}),
        "rate": ("1 bit/s", "1 kbit/s", "100 Gbit/s", "1e18 bit/s", {"trace": "rate0.txt"}),
    },
    "quic": {
        "mtu": ("1200 B", "65000 B", "16000 B", "9000 B"), "ecn": (True,), "handshake": ("0-rtt",), "crypto": ("rustls",), "ip": (4, 6),
        "initial_window": ("1 packets", "1 GB", "1 B", "100 packets"), "receive_window": ("1 B", "0 B", "1e18 B", "4 GB"),
        "send_window": ("1 B", "0 B", "1e18 B"), "stream_receive_window": ("1 B", "0 B", "1e18 B"), "packets_per_ack": (1, 1000),
        "max_ack_delay": ("0 s", "1 ns", "1 h", "16384 ms"), "idle_timeout": ("1 ns", "1 h", "2600000 h", "none"),
        "initial_rtt": ("1 ns", "1 h", "2600000 h"), "packet_threshold": (3, 10000, "none"), "unpaced_burst": (0, 1000),
        "profile": ("deep-space", "none"), "max_rtt": ("1 ns", "1 h", "10000 h"), "time_threshold": (1.0001, 2, 1000),
    },
    "tcp": {
        "ecn": (True,), "sack": (False,), "dsack": (False,), "timestamps": (False,), "window_scaling": (False,), "mss": ("1 B",
        "88 B", "536 B", "9000 B", "65000 B"), "initial_window": ("1 packets", "1 GB", "1 B"), "initial_rto": ("1 ns", "1 h"),
        "min_rto": ("0 s", "1 ns", "1 h"), "max_rto": ("1 ns", "1 h"), "receive_buffer": ("1 B", "1 kB", "1 MB", "1e18 B"),
        "send_buffer": ("1 B", "1 kB", "1 MB", "1e18 B"), "pacing": (True,), "fast_open": (True,), "prr": (False,), "ip": (4, 6),
        "frto": (False,), "limited_transmit": (False,), "restart_after_idle": (False,), "delayed_ack": ("0 s", "1 ns", "1 h", "none"),
        "packets_per_ack": (1, 2, 1000), "quick_acks": (0, 1000), "loss_detection": ("rack-tlp", "duplicate-acks"),
        "congestion": ("bbr", "hybla", {"name": "fixed", "rate_bit_s": 1000000}), "server": ({},),
    },
    "flow": {
        "transport": ("tcp", "quic", "udp"), "udp": ({}, {"ip": 6}), "direction": ("up", "down", "both"), "start": ("0 s", "1 ns", "100 ms"), "quic": ({},), "tcp": ({},),
        "start_jitter": ("0 s", "1 ns", "1 h", "2600000 h"), "access": ({"delay": "1 ms"}, {"both": {"rate": "1 kbit/s"}}),
        "congestion": ("bbr", "bbr1", "fixed", "newreno", "westwood", "fast", "aimd", {"name": "fixed", "window_bytes": 1}, "open-loop",
                       "no-op", {"name": "open-loop", "rate_bit_s": 1}, {"name": "no-op", "window_bytes": 1}),
        "server_congestion": ("bbr", "hybla"), "client": ("a", "b", "r"), "server": ("a", "b", "p"),
        "load": ({"time": "1 s"}, {"time": "1 ns"}, {"bytes": "1 MB"}, {"bytes": "1 kB", "streams": 1000}, {"time": "1 s",
                 "streams": 10000}, {"poisson": {"interval": "1 ns", "size": "1 B"}}, {"poisson": {"interval": "10 ms", "size": "0 B"}},
                 {"poisson": {"interval": "10 ms", "size": {"exponential": "10 kB"}}}, {"on_off": {"on": "1 ns", "off": "1 ns"}},
                 {"poisson": {"interval": "20 ms", "size": {"pareto": {"shape": 0.1, "min": "1 B", "max": "1e18 B"}}}},
                 {"on_off": {"on": "10 ms", "off": "10 ms", "exponential": True, "rate": "1 Mbit/s"}},
                 {"on_off": {"on": "10 us", "off": "10 us", "rate": "1e18 bit/s"}}, {"call": "g729a-vad"}, {"cbr": "1 bit/s"},
                 {"on_off": {"on": "1 ns", "off": "1 h", "periods": "pareto", "shape": 1.0001, "rate": "1 bit/s", "packet": "22 B"}},
                 "T:*1:0:-:1s", "T:*100:0:-:1us", "D:*1:0:-:8:99999999", "D:*3:-:-:100:100;D:*1:-:0:100:100",
                 {"page": "almanac-2019-light"}, {"page": "almanac-2019", "http": "2"}, {"page": "almanac-2019", "http": "1.1"},
                 {"page": "almanac-2024", "http": "3"}, {"page": "almanac-2019-light", "http": "alt-svc"}),
    },
    "group": {
        "count": (1, 2, 7, 1000, 10**9), "time_series": ("group", "per-flow"), "user": ("a", "b"), "admission_rate": ("1 bit/s", "1 Mbit/s", "1e18 bit/s"),
    },
    "segment": {
        "store_and_forward": ("none", "0 B", "1 B", "100 kB", "1 MB", "1e18 B"), "delay": ("0 s", "1 ns", "10 min", {"orbit": "before-last-hop"}, {"orbit": "last-hop"}),
        "access": ({"delay": "1 ms"},),
    },
    "path": {
        "handover": ([{"segment": "satellite", "at": "1 ms"}], [{"segment": "satellite", "at": "100 ms", "interval": "1 ms", "delay": "30 ms"}], []),
        "contacts": ("mars-day.toml",), "preset": ("starlink",),
    },
    "handover": {
        "at": ("0 s", "1 ns", "1 ms", "1 s", "100 h", ["1 ms", "2 s"], "2026-01-01T00:00:00Z"), "interval": ("1 ns", "1 ms", "1 s", "100 h"),
        "gap": ("1 ns", "1 ms", "1 s", "100 h"), "delay": ("0 s", "1 ns", "200 ms", "10 min"), "queued": ("keep", "drop", "hold"),
        "in_flight": ("in-order", "reorder", "drop"), "both": ({"rate": "1 bit/s"}, {"rate": "1 Gbit/s", "queue": "1 B"}, {"loss": "100 %"},
        {"queue": "1 BDP", "delay": "1 ns"}), "up": ({"rate": "1 kbit/s"},), "down": ({"delay": "1 h"},), "name": ("a", "x"),
    },
    "orbit": {
        "constellation": ("starlink-shell-1", "tauran-66", "oneweb", "iridium"), "from": ("Paris", "Sydney", "90 N 0 E"), "to": ("Paris", "New York"),
        "relays": ([], ["Sydney"], ["Paris", "Paris"]), "start": ("1 h", "2026-01-01T00:00:00Z"), "step": ("1 ns", "1 ms", "1 s", "1 h"),
        "elevation": ("0 deg", "25 deg", "89.9 deg"), "links": ("grid", "bent-pipe"), "coverage_gaps": ("error", "outage"),
        "handover": ("shortest-path", "best-elevation", "keep-until-lost", "periodic", {"rule": "periodic", "interval": "1 ms"}, {"rule": "periodic",
                     "interval": "15 s", "phase": "14 s", "jitter": "1 h", "seed": 2}),
    },
    "dtn": {
        "routing": ("sabr", "epidemic"), "copies": (1, 3, 2**32), "backlog": ("counted", "ignored"), "contact": ([], [{"from": "a", "to": "b",
        "rate": "1 Mbit/s"}]), "range": ([],), "node": ([],), "epoch": ("2026-01-01T00:00:00Z",),
    },
    "bundle node": {
        "store": ("1 B", "100 kB", "1e18 B"), "store_delay": ("0 s", "1 ns", "1 s", "1 h"), "outages": ([{"at": "0 s"}], [{"at": "1 s", "duration":
        "1 ns", "store": "lost"}], [{"at": "1 s", "duration": "1 s"}, {"at": "3 s", "duration": "1 h"}]), "integrity": ({"sign": "k"}, {"sign":
        "k", "sha": 512, "scope": []}, {"check": {"a": "k"}, "at": "every-hop"}), "eid": ("ipn:1.0", "dtn://a/"),
    },
    "contact": {
        "start": ("0 s", "1 ns", "1 s", "100 h"), "stop": ("0 s", "1 ns", "1 s", "100 h"), "rate": ("1 bit/s", "1 Mbit/s", "1e18 bit/s"),
        "owlt": ("0 s", "1 ns", "10 min", "100 h"), "both": (True, False), "from": ("a", "earth"), "to": ("b", "earth"),
    },
    "bundles": {
        "layer": ("quiccl", "quiccl-each", "quiccl-priorities", "qubicle", "tcpcl", "mtcp", "ltp", "ltp-green"), "connections": ("shared", "each"),
        "opened": ("with_contact", "on_demand"), "closed": ("with_contact", "never"), "on_return": ("alone", "reopen", "resume", "cue"),
        "rate": ("1 bit/s", "1 Mbit/s", "1e18 bit/s"), "owlt": ("0 s", "1 ms", "1 h"), "tls": ("no", "require"), "to": ("a", "earth"), "monitor": ("a",
        "earth"), "dtnperf": ("-R 1M -P 100k -D 1M", "-W 1 -D 10M", "-W 1000 -P 1 -D 1k", "-R 8k -P 10 -T 100", "-W 2 -P 1M -D 10M -l 1", "-R 1G -P 1 -T 1"),
    },
    "load": {
        "loads": (1, 1000, 10**9), "pause": (["0 s", "0 s"], ["1 ns", "1 h"]), "timeout": ("1 ns", "1 h"), "udp_blocked": (True,),
        "tls": ("1.2", "1.3"), "resumption": (True, False), "early_data": (True,), "certificate": ("0 B", "1 MB"), "profile":
        ("fresh", "kept"), "keep_connections": (True, False), "connections_per_host": (1, 100), "parse": ("0 s", "1 h"),
        "client_hello": ("0 B", "1 MB"), "quic_head_start": ("0 s", "1 h"), "http": ("1.1", "2", "3", "alt-svc"), "streams": (1, 9),
    },
    "proxy": {
        "handshake": ("none", "relayed", "early", "pooled"), "buffer": ("1 B", "1 kB", "1 GB"), "client_side": ({}, {"mss": "536 B"}),
        "server_side": ({}, {"congestion": "bbr"}, {"line_rate": True}), "kind": ("host", "router", "proxy"),
        "between": (["x", "y"], []),
    },
}  # fmt: skip
"""Keys and values of each sort of table, right ones and hardly right ones."""


@dataclass(frozen=True)
class Mutant:
    """A scenario with faults."""

    number: int
    source: Path
    how: tuple[str, ...]
    text: str
    folder: Path
    """Folder of its traces and pages."""


@dataclass(frozen=True)
class Verdict:
    """``refused`` with a message, ``ran``, or ``fault``: what must not happen."""

    kind: str
    message: str = ""


@functools.cache
def sources() -> tuple[Path, ...]:
    """Every scenario of the checkout, and one for each preset."""
    found = [*ROOT.glob("scenarios/**/*.toml"), *ROOT.glob("studies/**/*.toml")]
    return tuple(sorted(path for path in found if "flow" in tomllib.loads(path.read_text())))


GRAPH = """
title = "a graph"
duration = "2 s"
[graph]
node = ["a", "b", { name = "r", kind = "router" }, { name = "p", kind = "proxy", handshake = "early" }]
[[graph.link]]
name = "one"
client_side = "a"
server_side = "r"
delay = "10 ms"
both = { rate = "10 Mbit/s" }
[[graph.link]]
name = "two"
client_side = "r"
server_side = "p"
delay = "5 ms"
[[graph.link]]
name = "three"
client_side = "p"
server_side = "b"
delay = "5 ms"
both = { rate = "20 Mbit/s", loss = "0.1 %" }
[[flow]]
name = "main"
client = "a"
server = "b"
transport = "tcp"
congestion = "cubic"
[[flow]]
name = "other"
client = "b"
server = "a"
congestion = "bbr"
load = { poisson = { interval = "50 ms", size = "20 kB" } }
"""

PRESET = """
duration = "2 s"
[path]
preset = "{name}"
[[flow]]
name = "main"
congestion = "cubic"
load = {{ page = "almanac-2019-light", http = "2" }}
"""


TRACED = """
duration = "2 s"
[[path.segment]]
name = "s"
delay = { trace = "delay0.txt", interpolation = "linear" }
up = { rate = { trace = "rate0.txt" }, loss = { trace = "lost0.txt" } }
down = { trace = "slots0.txt", queue = "20 packets" }
[[flow]]
name = "main"
congestion = "cubic"
direction = "both"
"""

TRACES = 30
"""Files of each kind of trace; the first is right."""


@functools.cache
def traces() -> Path:
    """A folder of traces, most of them with faults, for as long as this process lives."""
    folder = tempfile.TemporaryDirectory(prefix="bentpipe-mutations-")
    atexit.register(folder.cleanup)
    kinds = {
        "delay": ("time_s,delay_ms", "0,10", "0.1,20.5", "0.1,3", "1,1e9", "1e9,1", "0.05,-1", "x", "", "2,0", "3,1e-9"),
        "rate": ("time_s,rate_Mbit_s", "0,10", "0.1,2.5", "0.1,0", "1,1e12", "1e9,1", "1,1e-9", "0,0", "nan,1", ""),
        "lost": ("3", "7", "# two", "-1", "0", "99999999999999999999", "x", "7", "", "1e3"),
        "slots": ("1", "1", "2", "5", "0", "-1", "9999999999999", "x", "", "3"),
    }  # fmt: skip
    for kind, lines in kinds.items():
        for index in range(TRACES):
            chance = random.Random(f"{kind}{index}")  # noqa: S311 - chance of a test
            found = list(lines[:3])
            for _ in range(chance.randrange(4) if index else 0):
                found.insert(chance.randrange(len(found) + 1), chance.choice(lines))
                if chance.random() < 0.3:
                    del found[chance.randrange(len(found))]
            Path(folder.name, f"{kind}{index}.txt").write_text("\n".join(found) + "\n")
    return Path(folder.name)


@functools.cache
def texts() -> tuple[tuple[Path, str, Path], ...]:
    """(where it comes from, its text, its folder)."""
    found = [(path, path.read_text(), path.parent) for path in sources()]
    found += [(Path("graph"), GRAPH, ROOT), *3 * [(Path("traced"), TRACED, traces())]]
    found += [(path, PRESET.format(name=path.stem), ROOT) for path in sorted(PRESETS.glob("*.toml"))]
    # Studies with controllers of their own hold nothing that the others do not.
    return tuple(one for one in found if not brings_controllers(one[1]))


def brings_controllers(text: str) -> bool:
    """Return whether a scenario requests a controller outside of the catalogue."""
    known = by_name(engine.catalogue())
    return any(name not in known for name in _controllers(tomllib.loads(text)))


def _controllers(data: Any) -> Iterator[str]:
    """The names of all controllers in a scenario and its sweep."""
    if isinstance(data, list):
        for one in data:
            yield from _controllers(one)
    elif isinstance(data, dict):
        for key, value in data.items():
            if key.removesuffix(".name").rpartition(".")[2] == "congestion":
                several = value if isinstance(value, list) else [value]
                yield from (one["name"] if isinstance(one, dict) else one for one in several)
            else:
                yield from _controllers(value)


def mutant(number: int) -> Mutant:
    """Mutant ``number``: one to four faults in one scenario, in its text or in its keys."""
    chance = random.Random(number)  # noqa: S311 - chance of a test
    source, text, folder = chance.choice(texts())
    how: list[str] = []
    if chance.random() < 0.2:
        for _ in range(chance.choice((1, 1, 2, 3))):
            text, did = _in_text(text, chance)
            how.append(did)
        return Mutant(number, source, tuple(how), text, folder)
    data = tomllib.loads(text)
    if chance.random() < 0.5:
        data.pop("sweep", None)  # whose keys would be missed
    how += [_in_keys(data, chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    return Mutant(number, source, tuple(how), json.dumps(data), folder)


def _in_text(text: str, chance: random.Random) -> tuple[str, str]:
    lines = text.splitlines() or [""]
    at = chance.randrange(len(lines))
    kind = chance.choice(("drop", "twice", "swap", "digit", "letter", "cut", "borrow"))
    if kind == "drop":
        del lines[at]
    elif kind == "twice":
        lines.insert(at, lines[at])
    elif kind == "swap":
        other = chance.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == "borrow":
        lines.insert(at, chance.choice(chance.choice(texts())[1].splitlines()))
    elif kind == "cut":
        return text[: chance.randrange(len(text) + 1)], kind
    else:
        places = [i for i, c in enumerate(text) if (c.isdigit() if kind == "digit" else not c.isspace())]
        place = chance.choice(places or [0])
        new = chance.choice("0123456789.-e") if kind == "digit" else chance.choice("abc_=[]{}\"'.,#\0é 0")
        return text[:place] + new + text[place + chance.randrange(2) :], kind
    return "\n".join(lines) + "\n", f"{kind} {at + 1}"


def _places(value: Any, above: str = "") -> Iterator[tuple[Any, Any, str]]:
    """(holder, key, name) of everything inside."""
    if isinstance(value, dict):
        inner: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        return
    for key, one in inner:
        name = f"{above}.{key}"
        yield value, key, name
        yield from _places(one, name)


def _in_keys(data: dict[str, Any], chance: random.Random) -> str:
    places = list(_places(data))
    if not places:
        data["flow"] = []
        return "empty"
    kind = chance.choice(("known",) * 6 + ("hostile", "scale", "scale", "drop", "twice", "rename", "borrow"))
    if kind == "known":
        return _known(data, chance)
    holder, key, name = chance.choice(places)
    value = holder[key]
    if isinstance(value, str) and (kinds := re.fullmatch(r"(delay|rate|lost|slots)\d+\.txt", value)):
        holder[key] = f"{kinds[1]}{chance.randrange(TRACES)}.txt"
    elif kind == "drop":
        del holder[key]
    elif kind == "twice" and isinstance(holder, list):
        holder.append(copy.deepcopy(value))
    elif kind == "rename" and isinstance(holder, dict):
        holder[chance.choice(("x", *KEYS["flow"], *KEYS["direction"]))] = holder.pop(key)
    elif kind == "scale" and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        holder[key] = _scaled(value, chance.choice((0, 1e-9, 1e-3, 0.1, 0.5, 2, 10, 1e3, 1e6, 1e12)))
    elif kind == "borrow":
        others = list(_places(tomllib.loads(chance.choice(texts())[1])))
        other, word, _ = chance.choice([one for one in others if one[1] == key] or others)
        holder[key] = copy.deepcopy(other[word])
    else:
        holder[key] = copy.deepcopy(chance.choice(HOSTILE))
    return f"{kind} {name}"


def _known(data: dict[str, Any], chance: random.Random) -> str:
    """A key where it belongs."""
    sorts = chance.sample(tuple(KEYS), len(KEYS))
    sort, table = next(
        (sort, chance.choice(found)) for sort in sorts if (found := _tables(data, sort, chance))
    )
    key = chance.choice(tuple(KEYS[sort]))
    table[key] = copy.deepcopy(chance.choice(KEYS[sort][key]))
    return f"{sort} {key}"


def _tables(data: dict[str, Any], sort: str, chance: random.Random) -> list[dict[str, Any]]:
    """The tables of a sort; some are made if there are none."""

    def members(above: object, *keys: str) -> list[dict[str, Any]]:
        for key in keys:
            above = above.get(key) if isinstance(above, dict) else None
        return [one for one in above if isinstance(one, dict)] if isinstance(above, list) else []

    def inner(tables: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
        found = [table.setdefault(key, {}) for table in tables]
        return [one for one in found if isinstance(one, dict)]

    flows = members(data, "flow")
    links = members(data, "path", "segment") + members(data, "graph", "link")
    nodes = members(data, "graph", "node")
    if sort == "direction":
        return inner(links, chance.choice(("up", "down", "both")))
    if sort == "load":
        return inner(flows, "load")
    if sort == "bundles":
        return _bundles(flows)
    if sort in ("quic", "tcp"):
        ends = members(data, "path", "proxy") + nodes
        sides = inner(ends, chance.choice(("client_side", "server_side"))) if sort == "tcp" else []
        return inner([chance.choice([data, *flows])], sort) + sides
    found = {
        "scenario": [data],
        "flow": flows,
        "group": flows,
        "segment": links + nodes,
        "proxy": members(data, "path", "proxy") + nodes,
        "path": [data[key] for key in ("path", "graph") if isinstance(data.get(key), dict)],
        "handover": members(data, "path", "handover") + members(data, "graph", "handover"),
        "bundle node": members(data, "dtn", "node"),
        "contact": members(data, "dtn", "contact"),
    }
    return found[sort] if sort in found else [one for one in [data.get(sort)] if isinstance(one, dict)]


def _bundles(flows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The loads of bundles; one that is a word becomes a table."""
    loads = [
        flow["load"] for flow in flows if isinstance(flow.get("load"), dict) and "bundles" in flow["load"]
    ]
    for load in loads:
        if isinstance(load["bundles"], str):
            load["bundles"] = {"layer": load["bundles"]}
    return [load["bundles"] for load in loads if isinstance(load["bundles"], dict)]


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, str):
        number, _, unit = value.partition(" ")
        try:
            return f"{float(number) * factor:.12g} {unit}"
        except ValueError:
            return f"{value} {value}"
    return type(value)(value * factor)


def judge(found: Mutant) -> Verdict:
    """Plan a mutant as ``check`` does, and run it for a while if it is valid."""
    try:
        plan = _plan(found)
        bounds(plan)
        estimate_plan(plan, 1)
        _ = [run_weight(run) for run in plan.runs]
    except ScenarioError as error:
        bad = [text for _, text in error.problems if not text.isprintable() or not text or len(text) > 2000]
        return Verdict("fault", f"a message {bad[0]!r}") if bad else Verdict("refused", str(error))
    except Exception:  # noqa: BLE001 - any exception is the fault
        return Verdict("fault", traceback.format_exc())
    chance = random.Random(found.number)  # noqa: S311 - chance of a test
    run = chance.choice(plan.runs)
    cell = next(cell for cell in plan.cells if cell.values == run.cell)
    try:
        share = min(1.0, MOST_EVENTS / max(estimate_cost(cell.resolved).events, 1.0))
        duration_ns = max(min(LEAST_NS, run.spec["duration_ns"]), int(run.spec["duration_ns"] * share))
        engine.run(replace(run, spec={**run.spec, "duration_ns": duration_ns}).spec_json())
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Verdict("fault", f"the engine: {error}\n{plan.runs[0].cell}")
    return Verdict("ran")


def _plan(found: Mutant) -> Plan:
    if found.text.startswith("{"):
        document = load_scenario(json.loads(found.text))
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
            file.write(found.text)
            file.flush()
            document = load_scenario(file.name)
    document = replace(document, folder=found.folder)
    return build_plan(document, engine.version(), catalogue=engine.catalogue(), orbits=engine.orbit)


def main(count: int, first: int = 0) -> int:
    """Judges ``count`` mutants; the exit status."""
    kinds: Counter[str] = Counter()
    for number in range(first, first + count):
        found = mutant(number)
        verdict = judge(found)
        kinds[verdict.kind] += 1
        if verdict.kind == "fault":
            print(
                f"--- mutant {number} of {found.source}: {', '.join(found.how)}\n{found.text}\n{verdict.message}"
            )
        if (number - first + 1) % 100 == 0:
            print(f"{number - first + 1} of {count}: {dict(kinds)}", file=sys.stderr, flush=True)
    print(json.dumps(kinds))
    return 1 if kinds["fault"] else 0


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:])))
