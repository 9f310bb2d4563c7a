"""What real time cannot do: each refusal names the key of the scenario, what it asks for, and why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["KERNEL", "Machine", "refusals"]

KERNEL = {"newreno": "reno", "reno": "reno", "cubic": "cubic", "bbr1": "bbr"}
"""Controllers of the simulation that Linux has, by Linux's names. Linux's bbr is version 1."""

AS_LINUX: dict[str, dict[str, Any]] = {
    "reno": {"slow_start_exit": "none", "abc_limit": None, "beta": 0.5},
    # tcp_cubic.c: beta 717/1024, C 0.4 (bic_scale 41), fast convergence, HyStart with both detectors
    "cubic": {
        "slow_start_exit": "classic",
        "avoidance": "linux",
        "fast_convergence": True,
        "beta": 0.7,
        "c": 0.4,
    },
    # tcp_bbr.c: long-term rates of policers, PROBE_RTT
    "bbr": {"policer_detection": True, "probe_rtt": True},
}
"""Options under which a controller is Linux's."""

FIXED = {
    "initial_rto_ns": (1_000_000_000, "initial_rto", "Linux has no setting for it"),
    "min_rto_ns": (200_000_000, "min_rto", "Linux's is 200 ms"),
    "max_rto_ns": (120_000_000_000, "max_rto", "Linux's is 120 s"),
    "adapt_reordering": (True, "adapt_reordering", "Linux always adapts"),
    "limited_transmit": (True, "limited_transmit", "Linux always has it"),
    "prr": (True, "prr", "Linux always has it"),
    "fast_open": (False, "fast_open", "the programs that measure do not use it"),
    "pacing": (
        False,
        "pacing",
        "Linux paces with BBR alone, or by a queueing discipline that the lab does not have",
    ),
    "delayed_ack": (
        {"timeout_ns": 40_000_000, "every": 2, "quick": 16},
        "delayed_ack",
        "Linux has no setting for it",
    ),
    "ack_counting": ({"kind": "unlimited"}, "abc", "Linux counts every byte"),
}
"""Options of TCP that Linux fixes: value, key in the scenario, reason."""

SHARED = (
    "initial_window_bytes", "loss_detection", "sack", "dsack", "frto", "timestamps", "window_scaling", "ecn",
    "restart_after_idle", "receive_buffer_bytes", "send_buffer_bytes",
)  # fmt: skip
"""Options that a namespace has once, for all of its TCP."""

MOST_ARRIVALS = 500
"""Clients of one flow: each arrival is a process."""


class Machine:
    """What this machine's kernel has."""

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        """Reads it from ``proc`` and ``sys``."""
        self.controllers = _words(proc / "sys/net/ipv4/tcp_available_congestion_control")
        self.hystart = _words(sys / "module/tcp_cubic/parameters/hystart")

    def options(self, kernel: str) -> dict[str, Any]:
        """Options under which the simulation's controller is the kernel's."""
        found = dict(AS_LINUX[kernel])
        if kernel == "cubic" and self.hystart == ["0"]:
            found["slow_start_exit"] = "none"
        return found


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:
        return []


def refusals(
    spec: Mapping[str, Any], catalogue: Sequence[Mapping[str, Any]], machine: Machine | None = None
) -> list[tuple[str, str]]:
    """Keys and reasons why the resolved run cannot be had in real time; none when it can."""
    machine = machine or Machine()
    defaults = {
        name: {option["name"]: option.get("default") for option in entry["options"]}
        for entry in catalogue
        for name in (entry["name"], *entry.get("aliases", ()))
    }
    problems = [
        (f"trace.{key}", "found true; only simulated packets are traced")
        for key in ("qlog", "pcapng", "packets")
        if spec["trace"].get(key)
    ]
    ends = (spec["flows"][0]["client"], spec["flows"][0]["server"])
    for flow in spec["flows"]:
        key = f"flow.{flow['name']}"
        if (flow["client"], flow["server"]) != ends:
            what = "a client of its own" if flow["client"] != ends[0] else "a server of its own"
            problems.append((key, f"has {what} on the path; in real time all flows have the same two ends"))
        problems += _load(flow["load"], f"{key}.load", int(spec["duration_ns"]))
        if flow["transport"]["kind"] == "quic":
            problems += _quic(flow, key, defaults)
        elif flow["transport"]["kind"] == "tcp":
            problems += _tcp(flow, key, defaults, machine)
    return problems + _agree(spec)


def _load(load: Mapping[str, Any], key: str, duration_ns: int) -> list[tuple[str, str]]:
    if load["kind"] == "on_off":
        return [(key, "is an on-off source, which `bentpipe perf` does not have")]
    if load["kind"] == "page":
        return [(key, "is a page; pages in real time are `bentpipe browse`")]
    if load["kind"] == "poisson":
        expected = min(int(load["duration_ns"]), duration_ns) / int(load["mean_interarrival_ns"])
        if expected > MOST_ARRIVALS:
            said = f"about {expected:,.0f} arrivals, each a process; expected at most {MOST_ARRIVALS}"
            return [(f"{key}.poisson", f"found {said}")]
    return []


def _quic(flow: Mapping[str, Any], key: str, known: Mapping[str, Any]) -> list[tuple[str, str]]:
    problems = []
    if flow["transport"]["handshake"] != "1-rtt":
        problems.append((f"{key}.quic.handshake", 'found "0-rtt"; a client of `bentpipe perf` has no ticket'))
    for side, word in (("client", "congestion"), ("server", "server_congestion")):
        name = flow[f"{side}_congestion"]["name"]
        if name not in known:
            problems.append(
                (f"{key}.{word}", f'found "{name}", a controller in Python, which has no real clock')
            )
    return problems


def _tcp(
    flow: Mapping[str, Any], key: str, known: Mapping[str, Mapping[str, Any]], machine: Machine
) -> list[tuple[str, str]]:
    problems = []
    transport = flow["transport"]
    sends = _senders(flow["load"])
    for side, word in (("client", "congestion"), ("server", "server_congestion")):
        if side in sends:
            where = (
                f"{key}.{word}"
                if flow["client_congestion"] != flow["server_congestion"]
                else f"{key}.congestion"
            )
            problems += _controller(flow[f"{side}_congestion"], where, known, machine)
        for option, (value, name, why) in FIXED.items():
            if transport[side][option] != value:
                place = f"{key}.tcp" if side == "client" else f"{key}.tcp.server"
                found = f"{place}.{name}", f"found what this kernel's TCP cannot do: {why}"
                if (found[0].replace(".server", ""), found[1]) not in problems:
                    problems.append(found)
    return list(dict.fromkeys(problems))


def _senders(load: Mapping[str, Any]) -> set[str]:
    """Sides whose controller matters: those that send more than a request."""
    if load["kind"] == "poisson":
        return {"client" if load["send"] == "up" else "server"}
    found: set[str] = set()
    for stream in load.get("streams", ()):
        amount = stream["amount"]
        if amount["mode"] == "time":
            found.add("client" if amount["send"] == "up" else "server")
        else:
            found |= {"client"} if amount["up_bytes"] > 8 else set()
            found |= {"server"} if amount["down_bytes"] else set()
    return found or {"client", "server"}


def _controller(
    named: Mapping[str, Any], key: str, known: Mapping[str, Mapping[str, Any]], machine: Machine
) -> list[tuple[str, str]]:
    name = named["name"]
    if name not in KERNEL:
        there = ", ".join(sorted(ours for ours, theirs in KERNEL.items() if theirs in machine.controllers))
        return [(key, f'found "{name}"; this kernel\'s TCP has {there or "none of them"}')]
    kernel = KERNEL[name]
    if kernel not in machine.controllers:
        has = ", ".join(machine.controllers) or "none"
        return [
            (
                key,
                f'found "{name}", which is Linux\'s {kernel}; this kernel has {has} (modprobe tcp_{kernel})',
            )
        ]
    asked = {**known.get(name, {}), **(named.get("options") or {})}
    wrong = {
        option: value
        for option, value in machine.options(kernel).items()
        if asked.get(option, value) != value
    }
    if not wrong:
        return []
    word = ", ".join(f"{option} = {json.dumps(asked.get(option))}" for option in wrong)
    right = ", ".join(f"{option} = {json.dumps(value)}" for option, value in wrong.items())
    return [(key, f'found "{name}" with {word}; Linux\'s {kernel} is {{ name = "{name}", {right} }}')]


def _agree(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Options that a namespace has once."""
    flows = [flow for flow in spec["flows"] if flow["transport"]["kind"] == "tcp"]
    problems = []
    for flow in flows[1:]:
        for side in ("client", "server"):
            ours, first = flow["transport"][side], flows[0]["transport"][side]
            for option in SHARED:
                if ours[option] != first[option]:
                    word = option.removesuffix("_bytes")
                    why = f'differs from that of flow "{flows[0]["name"]}"; in real time all TCP of a side has one'
                    problems.append((f"flow.{flow['name']}.tcp.{word}", why))
    return list(dict.fromkeys(problems))
