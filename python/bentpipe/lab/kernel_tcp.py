"""The kernel's TCP in place of the simulated one: its controllers and options, and unsupported settings.

Each problem names the key of the scenario, its value and the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.flow.controllers import by_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from bentpipe.plan.spec.run_spec import CongestionSpec, RunSpec, SocketSpec, TcpSides

__all__ = [
    "ETHERNET_MTU",
    "SYSCTLS",
    "Machine",
    "check_controller",
    "check_fixed_options",
    "check_proxies",
    "kernel_name",
]

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
        "Linux paces only with BBR, or with a queueing discipline that the lab lacks",
    ),
    "delayed_ack": (
        {"timeout_ns": 40_000_000, "segments_per_ack": 2, "quick_acks": 16},
        "delayed_ack",
        "Linux has no setting for it",
    ),
    "ack_counting": ({"kind": "unlimited"}, "abc", "Linux counts every byte"),
}
"""Options of TCP that Linux fixes: value, key in the scenario, reason."""

SYSCTLS = (
    "loss_detection", "sack", "dsack", "frto", "timestamps", "window_scaling", "ecn", "restart_after_idle",
)  # fmt: skip
"""Options that are settings of a namespace, common to all of its sockets (crates/runtime/src/tcp/kernel.rs)."""

PROXY_OPTIONS = ("min_rto_ns", "adapt_reordering", "pacing", "delayed_ack")
"""Options of :data:`FIXED` that the sockets of a proxy support all the same
(crates/programs/src/pep/side_options.rs)."""

UNSUPPORTED = "not supported by this kernel's TCP"

ETHERNET_MTU = 1500
"""Size of the largest IP packet on the links of a lab unless a flow needs a larger one, bytes."""


class Machine:
    """Congestion controllers of the kernel of this host."""

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        """Read the controllers from ``proc`` and ``sys``."""
        self.controllers = _read_words(proc / "sys/net/ipv4/tcp_available_congestion_control")
        self.hystart = _read_words(sys / "module/tcp_cubic/parameters/hystart")

    def options(self, twin: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options with which the simulation's controller equals the kernel's controller ``twin``."""
        options = dict(twin["options"])
        if twin["name"] == "cubic" and self.hystart == ["0"]:
            options["slow_start_exit"] = "none"
        return options


def _read_words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:
        return []


# --- Controllers ----------------------------------------------------------------------------------------------


def kernel_name(name: str, catalogue: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the kernel's name of the simulation's controller ``name``; None if the kernel has no equivalent."""
    twin = by_name(catalogue).get(name, {}).get("kernel")
    return None if twin is None else str(twin["name"])


def check_controller(
    named: CongestionSpec,
    key: str,
    catalogue: Sequence[Mapping[str, Any]],
    machine: Machine,
    *,
    all_options: bool = True,
) -> list[tuple[str, str]]:
    """Return why a simulated controller cannot be replaced by that of the kernel.

    Args:
        named: name of the controller and its options.
        key: key of the controller in the scenario.
        catalogue: controllers of the engine.
        machine: controllers of the kernel.
        all_options: compare the options without an explicit value too, so that both controllers are equal.
            Otherwise only explicit options must be supported.
    """
    name, entries = named["name"], by_name(catalogue)
    entry = entries.get(name, {})
    twin = entry.get("kernel")
    if twin is None:
        return [(key, f'found "{name}"{_format_alternatives(name, entries, machine)}')]
    if twin["name"] not in machine.controllers:
        available = ", ".join(machine.controllers) or "none"
        title = f"Linux's {twin['name']}"
        return [
            (
                key,
                f'found "{name}", which is {title}; this kernel has {available} (modprobe tcp_{twin["name"]})',
            )
        ]
    options = {option["key"]: option["default"] for option in entry["options"]} if all_options else {}
    requested = {**options, **(named.get("options") or {})}
    different = {
        option: value
        for option, value in machine.options(twin).items()
        if requested.get(option, value) != value
    }
    if not different:
        return []
    found = ", ".join(f"{option} = {json.dumps(requested.get(option))}" for option in different)
    expected = ", ".join(f"{option} = {json.dumps(value)}" for option, value in different.items())
    return [
        (key, f'found "{name}" with {found}; Linux\'s {twin["name"]} is {{ name = "{name}", {expected} }}')
    ]


def _format_alternatives(name: str, entries: Mapping[str, Mapping[str, Any]], machine: Machine) -> str:
    """Return the title of ``name`` and the alternatives: first the kernel's controller of the same name."""
    entry = entries.get(name)
    twins = {
        name_of_ours: one["kernel"] for name_of_ours, one in entries.items() if one["kernel"] is not None
    }
    names = [] if entry is None else [entry["scenario_name"], *entry["aliases"]]
    namesake = [name_of_ours for name_of_ours, twin in twins.items() if twin["name"] in names]
    description = "" if entry is None or not namesake else f", which is {entry['title']}"
    available = ", ".join(
        sorted(name_of_ours for name_of_ours, twin in twins.items() if twin["name"] in machine.controllers)
    )
    hint = f'; did you mean "{namesake[0]}", {twins[namesake[0]]["title"]}?' if namesake else ""
    return f"{description}; this kernel's TCP has {available or 'none of them'}{hint}"


# --- Options --------------------------------------------------------------------------------------------------


def check_fixed_options(transport: TcpSides, key: str) -> list[tuple[str, str]]:
    """Return the options of both ends that Linux fixes to another value.

    Args:
        transport: options of ``client`` and ``server``.
        key: key of their table in the scenario.
    """
    client, server = (
        dict(_find_fixed_options(transport["client"])),
        dict(_find_fixed_options(transport["server"])),
    )
    problems = [(f"{key}.{name}", problem) for name, problem in client.items()]
    return problems + [
        (f"{key}.server.{name}", problem) for name, problem in server.items() if name not in client
    ]


def _find_fixed_options(
    end: Mapping[str, object], supported: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield the keys of an end's options that Linux fixes to another value, and the reason.

    Args:
        end: options of the end.
        supported: options that are supported all the same.
    """
    for option, (value, name, reason) in FIXED.items():
        if option not in supported and end.get(option, value) != value:
            yield name, f"{UNSUPPORTED}: {reason}"
    if "forward" in str(end.get("loss_detection")):
        yield "loss_detection.forward", f"{UNSUPPORTED}: Linux no longer uses a packet threshold"


# --- Proxies --------------------------------------------------------------------------------------------------


def check_proxies(
    spec: RunSpec,
    catalogue: Sequence[Mapping[str, Any]],
    machine: Machine,
    *,
    keys: Mapping[str, str] | None = None,
    senders: Collection[str] = (),
) -> list[tuple[str, str]]:
    """Return the settings of a run's proxies that the kernel does not support.

    Args:
        spec: the run.
        catalogue: controllers of the engine.
        machine: controllers of the kernel.
        keys: keys of the proxies in the scenario, by their nodes.
        senders: ends that send measured data, ``client`` or ``server``. The sockets that forward it need
            equal controllers (``all_options`` of :func:`check_controller`).
    """
    problems = []
    for proxy in spec.get("proxies", ()):
        key = (keys or {}).get(proxy["node"], f"proxy.{proxy['node']}")
        sides = (
            ("client_side", "server", proxy["client_side"]),
            ("server_side", "client", proxy["server_side"]),
        )
        for name_of_side, source, side in sides:
            side_key, tcp = f"{key}.{name_of_side}", side["tcp"]
            problems += _check_socket(
                side, f"{side_key}.congestion", catalogue, machine, all_options=source in senders
            )
            problems += [
                (f"{side_key}.{name}", problem)
                for name, problem in _find_fixed_options({**tcp}, PROXY_OPTIONS)
            ]
            if tcp["min_rto_ns"] == 0 or tcp["min_rto_ns"] % 1_000_000:
                problem = f"found {tcp['min_rto_ns'] / 1e6:g} ms; routes have whole milliseconds"
                problems.append((f"{side_key}.min_rto", problem))
            if tcp["delayed_ack"] not in (None, FIXED["delayed_ack"][0]):
                problem = f'{UNSUPPORTED}: Linux\'s is 40 ms, every 2, 16 quick ones, or "off"'
                problems.append((f"{side_key}.delayed_ack", problem))
        client_tcp, server_tcp = ({**side["tcp"]} for _, _, side in sides)
        for option in (*SYSCTLS, "adapt_reordering"):
            if client_tcp[option] != server_tcp[option]:
                problem = "differs from that of client_side; expected the same: Linux has one for both sides"
                problems.append((f"{key}.server_side.{option}", problem))
    return problems


def _check_socket(
    side: SocketSpec, key: str, catalogue: Sequence[Mapping[str, Any]], machine: Machine, *, all_options: bool
) -> list[tuple[str, str]]:
    """Return why the controller of a proxy's socket cannot be replaced by that of the kernel.

    A proxy that knows the line rate uses CUBIC with that pacing rate and the initial window of the model.
    """
    named: CongestionSpec = {"name": side["congestion"], "options": side.get("options") or {}}
    if named["name"] != "fixed":
        return check_controller(named, key, catalogue, machine, all_options=all_options)
    if missing := [option for option in ("rate_bit_s", "window_bytes") if option not in named["options"]]:
        return [
            (key, f'found "fixed" without {" and ".join(missing)}; expected both, as line_rate sets them')
        ]
    return check_controller({"name": "cubic", "options": {}}, key, catalogue, machine, all_options=False)
