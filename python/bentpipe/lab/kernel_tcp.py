"""The TCP of this machine's kernel in place of a simulated one: its controllers and options, and what it cannot do.

Each refusal names the key of the scenario, what it asks for, and why not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.flow.controllers import by_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from bentpipe.plan.spec.run_spec import CongestionSpec, RunSpec, SocketSpec, TcpSides

__all__ = ["ETHERNET_MTU", "SYSCTLS", "Machine", "fixed", "twin_name", "wrong_controller", "wrong_proxies"]

FIXED = {
    "initial_rto_ns": (1_000_000_000, "initial_rto", "Linux has no setting for it"),
    "min_rto_ns": (200_000_000, "min_rto", "Linux's is 200 ms"),
    "max_rto_ns": (120_000_000_000, "max_rto", "Linux's is 120 s"),
    "rto_estimate": ("linux", "rto_estimate", "Linux has its own"),
    "adapt_reordering": (True, "adapt_reordering", "Linux always adapts"),
    "limited_transmit": (True, "limited_transmit", "Linux always has it"),
    "prr": (True, "prr", "Linux always has it"),
    "fast_open": (False, "fast_open", "the programs in a lab do not use it"),
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

SYSCTLS = (
    "loss_detection", "sack", "dsack", "frto", "timestamps", "window_scaling", "ecn", "restart_after_idle",
)  # fmt: skip
"""Options that are settings of a namespace: all sockets in it have them (crates/runtime/src/tcp/kernel.rs)."""

OF_PROXIES = ("min_rto_ns", "adapt_reordering", "pacing", "delayed_ack")
"""Of :data:`FIXED`, what a proxy's sockets are given all the same (crates/programs/src/pep/side_options.rs)."""

CANNOT = "found what this kernel's TCP cannot do"

ETHERNET_MTU = 1500
"""Largest IP packet of a lab's links where nothing needs a larger one."""


class Machine:
    """What this machine's kernel has."""

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        """Reads it from ``proc`` and ``sys``."""
        self.controllers = _words(proc / "sys/net/ipv4/tcp_available_congestion_control")
        self.hystart = _words(sys / "module/tcp_cubic/parameters/hystart")

    def options(self, twin: Mapping[str, Any]) -> dict[str, Any]:
        """Options under which the simulation's controller is the kernel's ``twin`` of it."""
        found = dict(twin["options"])
        if twin["name"] == "cubic" and self.hystart == ["0"]:
            found["slow_start_exit"] = "none"
        return found


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:
        return []


# --- controllers ----------------------------------------------------------------------------------------------


def twin_name(name: str, catalogue: Sequence[Mapping[str, Any]]) -> str | None:
    """What the kernel calls the controller ``name`` of the simulation; None where it has none like it."""
    twin = by_name(catalogue).get(name, {}).get("kernel")
    return None if twin is None else str(twin["name"])


def wrong_controller(
    named: CongestionSpec,
    key: str,
    catalogue: Sequence[Mapping[str, Any]],
    machine: Machine,
    *,
    whole: bool = True,
) -> list[tuple[str, str]]:
    """Why a simulated controller cannot be the kernel's.

    Args:
        named: its name and the options given.
        key: of it in the scenario.
        catalogue: the engine's.
        machine: the kernel.
        whole: with the options that were not given too: is it the same controller? Else what was asked for is asked
            of the kernel, and nothing more.
    """
    name, entries = named["name"], by_name(catalogue)
    entry = entries.get(name, {})
    twin = entry.get("kernel")
    if twin is None:
        return [(key, f'found "{name}"{_instead(name, entries, machine)}')]
    if twin["name"] not in machine.controllers:
        has = ", ".join(machine.controllers) or "none"
        what = f"Linux's {twin['name']}"
        return [
            (key, f'found "{name}", which is {what}; this kernel has {has} (modprobe tcp_{twin["name"]})')
        ]
    options = {option["key"]: option["default"] for option in entry["options"]} if whole else {}
    asked = {**options, **(named.get("options") or {})}
    wrong = {
        option: value for option, value in machine.options(twin).items() if asked.get(option, value) != value
    }
    if not wrong:
        return []
    word = ", ".join(f"{option} = {json.dumps(asked.get(option))}" for option in wrong)
    right = ", ".join(f"{option} = {json.dumps(value)}" for option, value in wrong.items())
    return [(key, f'found "{name}" with {word}; Linux\'s {twin["name"]} is {{ name = "{name}", {right} }}')]


def _instead(name: str, entries: Mapping[str, Mapping[str, Any]], machine: Machine) -> str:
    """What ``name`` is, and what there is instead: the kernel's controller of the same name first."""
    entry = entries.get(name)
    twins = {ours: one["kernel"] for ours, one in entries.items() if one["kernel"] is not None}
    alike = [] if entry is None else [entry["scenario_name"], *entry["aliases"]]
    namesake = [ours for ours, twin in twins.items() if twin["name"] in alike]
    what = "" if entry is None or not namesake else f", which is {entry['title']}"
    there = ", ".join(sorted(ours for ours, twin in twins.items() if twin["name"] in machine.controllers))
    near = f'; did you mean "{namesake[0]}", {twins[namesake[0]]["title"]}?' if namesake else ""
    return f"{what}; this kernel's TCP has {there or 'none of them'}{near}"


# --- options --------------------------------------------------------------------------------------------------


def fixed(transport: TcpSides, place: str) -> list[tuple[str, str]]:
    """Options of both ends (``client``, ``server``) that Linux has otherwise; ``place`` is the key of their table."""
    client, server = dict(_fixed(transport["client"])), dict(_fixed(transport["server"]))
    problems = [(f"{place}.{name}", said) for name, said in client.items()]
    return problems + [
        (f"{place}.server.{name}", said) for name, said in server.items() if name not in client
    ]


def _fixed(end: Mapping[str, object], but: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Keys of an end's options that Linux has otherwise, and why; ``but`` are options that can be had."""
    for option, (value, name, why) in FIXED.items():
        if option not in but and end.get(option, value) != value:
            yield name, f"{CANNOT}: {why}"
    if "forward" in str(end.get("loss_detection")):
        yield "loss_detection.forward", f"{CANNOT}: Linux counts no distance any more"


# --- proxies --------------------------------------------------------------------------------------------------


def wrong_proxies(
    spec: RunSpec,
    catalogue: Sequence[Mapping[str, Any]],
    machine: Machine,
    *,
    keys: Mapping[str, str] | None = None,
    senders: Collection[str] = (),
) -> list[tuple[str, str]]:
    """What the sockets of a run's proxies cannot be in the kernel.

    Args:
        spec: the run.
        catalogue: the engine's controllers.
        machine: the kernel.
        keys: of the proxies in the scenario, by their nodes.
        senders: ``client``, ``server``: who sends what is measured, so that the sockets that pass it on are to have the
            same controllers, with the options that were not given too (``whole`` of :func:`wrong_controller`).
    """
    problems = []
    for proxy in spec.get("proxies", ()):
        key = (keys or {}).get(proxy["node"], f"proxy.{proxy['node']}")
        sides = (
            ("client_side", "server", proxy["client_side"]),
            ("server_side", "client", proxy["server_side"]),
        )
        for word, source, side in sides:
            place, tcp = f"{key}.{word}", side["tcp"]
            problems += _wrong_side(side, f"{place}.congestion", catalogue, machine, whole=source in senders)
            problems += [(f"{place}.{name}", said) for name, said in _fixed({**tcp}, OF_PROXIES)]
            if tcp["min_rto_ns"] == 0 or tcp["min_rto_ns"] % 1_000_000:
                said = f"found {tcp['min_rto_ns'] / 1e6:g} ms; routes have whole milliseconds"
                problems.append((f"{place}.min_rto", said))
            if tcp["delayed_ack"] not in (None, FIXED["delayed_ack"][0]):
                said = f'{CANNOT}: Linux\'s is 40 ms, every 2, 16 quick ones, or "off"'
                problems.append((f"{place}.delayed_ack", said))
        near, far = ({**side["tcp"]} for _, _, side in sides)
        for option in (*SYSCTLS, "adapt_reordering"):
            if near[option] != far[option]:
                said = "differs from that of client_side; expected the same: Linux has one for both sides"
                problems.append((f"{key}.server_side.{option}", said))
    return problems


def _wrong_side(
    side: SocketSpec, key: str, catalogue: Sequence[Mapping[str, Any]], machine: Machine, *, whole: bool
) -> list[tuple[str, str]]:
    """Why the controller of a proxy's socket cannot be the kernel's. Who knows the rate is CUBIC with that pace
    and the model's window to begin with."""
    named: CongestionSpec = {"name": side["congestion"], "options": side.get("options") or {}}
    if named["name"] != "fixed":
        return wrong_controller(named, key, catalogue, machine, whole=whole)
    if missing := [one for one in ("rate_bit_s", "window_bytes") if one not in named["options"]]:
        return [
            (key, f'found "fixed" without {" and ".join(missing)}; expected both, as rate_knowing has them')
        ]
    return wrong_controller({"name": "cubic", "options": {}}, key, catalogue, machine, whole=False)
