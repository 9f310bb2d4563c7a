"""Access network of a question: a preset, a scenario, or two rates and a round-trip time."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.document import ScenarioDocument, load_scenario
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.presets import presets
from bentpipe.scenario.quantities import Duration, Probability, Rate, UnitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "PROXIES",
    "AccessNumbers",
    "NamedAccess",
    "check_given",
    "find_proxy",
    "load_access",
    "lowest_rate",
    "parse_loss",
    "parse_numbers",
    "path_tables",
    "split_rtt",
]

DEFAULT_QUEUE = "1 BDP"
"""Queue of an access given as numbers (draft-kuhn-quic-4-sat-07, section 4)."""

TERRESTRIAL_RTT_NS = 30_000_000
"""RTT behind the gateway, as measured from that of KA-SAT (Thomas et al. 2019, section 3.2).

A shorter round-trip time of the whole path is split in half.
"""

LAN_RTT_NS = 1_000_000
"""RTT between terminal and client, which are in the same place."""

_PLAIN: dict[str, Any] = {"handshake": "early", "client_side": {}, "server_side": {}}
_LINE_RATE: dict[str, Any] = {"line_rate": True}
PROXIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": (_PLAIN, _PLAIN),
    "pooled": ({**_PLAIN, "handshake": "pooled"}, _PLAIN),
    "line-rate": (
        {"handshake": "pooled", "client_side": {}, "server_side": _LINE_RATE},
        {"handshake": "early", "client_side": _LINE_RATE, "server_side": {}},
    ),
}
"""Settings of the proxies at the terminal and at the gateway, by name.

- plain: the proxies only split TCP connections
- pooled: connections over the satellite come from a pool
- line-rate: the proxies also send over the satellite at its known rate from the first byte, as proprietary PEPs seem
  to do
"""


@dataclass(frozen=True)
class AccessNumbers:
    """Access given as numbers."""

    down: Rate
    """Rate towards the client."""
    up: Rate
    rtt: Duration
    """Round-trip time of the whole path."""

    @property
    def name(self) -> str:
        """Name in file names."""
        values = (self.down, self.up, self.rtt)
        return "-".join(str(value).replace(" ", "").replace("/s", "") for value in values)

    @property
    def title(self) -> str:
        """Text for people."""
        return f"{self.down} down, {self.up} up, {self.rtt}"


@dataclass(frozen=True)
class NamedAccess:
    """Access of a preset or a scenario file."""

    document: ScenarioDocument
    name: str
    """Name in file names."""
    title: str


def check_given(name: str | None, down: str | None, up: str | None, rtt: str | None) -> None:
    """Check that the access is given either by name or as numbers.

    Raises:
        ScenarioError: it is given in neither way, or in both.
    """
    given = [key for key, value in (("down", down), ("up", up), ("rtt", rtt)) if value is not None]
    if name is None and not given:
        text = (
            "missing, expected a preset, a scenario (TOML), or an access as numbers: --down, --up and --rtt"
        )
        raise ScenarioError([("access", text)], SOURCE_ARGUMENT)
    if name is not None and given:
        text = (
            f"cannot be combined with {name}, whose path has rates and delays; use --set to change its keys"
        )
        raise ScenarioError([(given[0], text)], SOURCE_ARGUMENT)


def parse_numbers(down: str | None, up: str | None, rtt: str | None) -> AccessNumbers:
    """Parse two rates and the round-trip time of the whole path.

    Raises:
        ScenarioError: an argument is missing or wrong.
    """
    arguments = {
        "down": (down, Rate.parse, "50 Mbit/s"),
        "up": (up, Rate.parse, "6 Mbit/s"),
        "rtt": (rtt, _parse_positive_duration, "620 ms"),
    }
    present = " and ".join(f"--{key}" for key, (text, _, _) in arguments.items() if text is not None)
    problems: list[tuple[str, str]] = []
    for key, (text, parse, example) in arguments.items():
        try:
            if text is None:
                problems.append((key, f'missing beside {present}, expected it too, such as "{example}"'))
            else:
                parse(text)
        except UnitError as error:
            problems.append((key, str(error)))
    if problems or down is None or up is None or rtt is None:
        raise ScenarioError(problems, SOURCE_ARGUMENT)
    return AccessNumbers(Rate.parse(down), Rate.parse(up), Duration.parse(rtt))


def parse_loss(loss: str) -> Probability:
    """Return the probability of losing a packet.

    Raises:
        ScenarioError: the loss is no probability, or every packet is lost.
    """
    try:
        probability = Probability.parse(loss)
    except UnitError as error:
        raise ScenarioError([("loss", str(error))], SOURCE_ARGUMENT) from None
    if probability.value == 1:
        text = f'found "{loss}", which loses every packet; expected less, such as "1 %"'
        raise ScenarioError([("loss", text)], SOURCE_ARGUMENT)
    return probability


def lowest_rate(direction: Mapping[str, Any]) -> Rate | None:
    """Return the constant rate or the lowest rate of slots of a direction; None for any other rate."""
    rate = direction.get("rate")
    if isinstance(rate, dict):
        rate = rate.get("constant")
    slots = direction.get("reconfiguration")
    if rate is None and isinstance(slots, dict):
        rate = (slots.get("rate") or [None])[0]
    return Rate.parse(rate) if isinstance(rate, str) else None


def _parse_positive_duration(text: str) -> Duration:
    duration = Duration.parse(text)
    if duration.ns == 0:
        raise UnitError(f'found "{text}", expected a time above 0 such as "620 ms"')
    return duration


def load_access(name: str, overrides: Sequence[tuple[str, object]] = ()) -> NamedAccess:
    """Load the scenario of a preset or of a TOML file.

    Args:
        name: the preset or the file.
        overrides: dotted keys and values, as ``--set`` gives them.

    Raises:
        ScenarioError: the name is unknown, or the file is wrong.
    """
    known = {preset.name: preset for preset in presets()}
    if name in known:
        document = load_scenario({"path": {"preset": name}}, overrides)
        return NamedAccess(document, name, known[name].title)
    if name.endswith(".toml") or Path(name).is_file():
        document = load_scenario(name, overrides)
        return NamedAccess(document, Path(name).stem, str(document.data.get("title", Path(name).stem)))
    text = f"{unknown_name(name, known, 'preset')}; or a scenario (TOML)"
    raise ScenarioError([("access", text)], SOURCE_ARGUMENT)


def find_proxy(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the proxies at the terminal and at the gateway.

    Raises:
        ScenarioError: the kind of proxy is unknown.
    """
    if name not in PROXIES:
        raise ScenarioError([("proxy", unknown_name(name, PROXIES, "kind of proxy"))], SOURCE_ARGUMENT)
    return PROXIES[name]


def split_rtt(rtt: str) -> tuple[int, int, int]:
    """Return the one-way delays in ns of LAN, access and internet for a round-trip time of the whole path."""
    rtt_ns = Duration.parse(rtt).ns
    lan = min(LAN_RTT_NS, rtt_ns // 20)
    internet = min(TERRESTRIAL_RTT_NS, rtt_ns // 2)
    return lan // 2, (rtt_ns - lan - internet) // 2, internet // 2


def path_tables(
    down: Mapping[str, Any], up: Mapping[str, Any], rtt: str, proxy: str | None = None
) -> dict[str, Any]:
    """Return the table ``path`` of an access between a LAN and the internet.

    Args:
        down: direction of the access towards the client, without its delay.
        up: direction towards the server.
        rtt: round-trip time of the whole path.
        proxy: kind of the proxies (:data:`PROXIES`) at both ends of the access; None: no proxies.

    Raises:
        ScenarioError: the kind of proxy is unknown.
    """
    lan, access_delay, internet = split_rtt(rtt)
    path: dict[str, Any] = {
        "segment": [
            {"name": "lan", "delay": f"{lan} ns"},
            {"name": "access", "delay": f"{access_delay} ns", "down": dict(down), "up": dict(up)},
            {"name": "internet", "delay": f"{internet} ns"},
        ]
    }
    if proxy is not None:
        terminal, gateway = find_proxy(proxy)
        path["proxy"] = [
            {"name": "terminal", "between": ["lan", "access"], **copy.deepcopy(terminal)},
            {"name": "gateway", "between": ["access", "internet"], **copy.deepcopy(gateway)},
        ]
    return path
