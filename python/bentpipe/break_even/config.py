"""The map's question, and the scenario that answers it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bentpipe.break_even.access import Access
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.quantities import Duration, Size, UnitError

__all__ = ["PROXIES", "RTTS", "SIZES", "BreakEvenConfig", "parse_config", "scenario"]

SIZES = tuple(f"{n} {unit}" for unit in ("kB", "MB") for n in (1, 3, 10, 30, 100, 300))[:-1]
"""1 kB to 100 MB, two or three a decade."""

RTTS = ("20 ms", "40 ms", "80 ms", "150 ms", "300 ms", "550 ms", "800 ms")
"""From a fibre to a geostationary path with a slow gateway."""

TERRESTRIAL_RTT_NS = 30_000_000
"""Round trip behind the gateway, as measured from KA-SAT's (Thomas et al. 2019, section 3.2); half of a shorter one."""

LAN_RTT_NS = 1_000_000
"""Round trip between terminal and client (same place)."""

LOAD_FACTOR = 4
"""A run lasts this many times the transfer at the access's rate, and ``SETTLE_RTTS`` round trips more."""

SETTLE_RTTS = 60

SLOT_SEEDS = 3
"""Of an access whose rates are drawn, unless it is said: the median is then a pair that was measured."""

_PLAIN: dict[str, Any] = {"setup": "early", "client_side": {}, "server_side": {}}
_KNOWING: dict[str, Any] = {"rate_knowing": True}
PROXIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": (_PLAIN, _PLAIN),
    "pooled": ({**_PLAIN, "setup": "pooled"}, _PLAIN),
    "rate-knowing": (
        {"setup": "pooled", "client_side": {}, "server_side": _KNOWING},
        {"setup": "early", "client_side": _KNOWING, "server_side": {}},
    ),
}
"""Proxies at the terminal and at the gateway: split only; with connections over the satellite out of a pool; and with
a satellite segment that sends at its known rate from the first byte, as the proprietary ones seem to."""


@dataclass(frozen=True)
class BreakEvenConfig:
    """A map to make."""

    access: Access
    sizes: tuple[str, ...] = SIZES
    rtts: tuple[str, ...] = RTTS
    controllers: tuple[str, ...] = ("cubic", "bbr")
    windows: tuple[str, ...] = ("10 packets", "32 packets")
    tcp: str = "cubic"
    """Controller of the TCP servers and clients."""
    proxy: str = "rate-knowing"
    seeds: int = 1


def page_name(size: str) -> str:
    """The page of one object of this size."""
    return "size-" + size.replace(" ", "-").replace(".", "-")


def split_rtt(rtt: str) -> tuple[int, int, int]:
    """One-way delays of the three segments (client's network, access, internet) for a whole round trip, in ns."""
    whole = Duration.parse(rtt).ns
    lan = min(LAN_RTT_NS, whole // 20)
    internet = min(TERRESTRIAL_RTT_NS, whole // 2)
    return lan // 2, (whole - lan - internet) // 2, internet // 2


def duration_ns(size: str, question: BreakEvenConfig) -> int:
    """Length of the runs that load an object of this size."""
    longest = max(Duration.parse(rtt).ns for rtt in question.rtts)
    transfer = Size.parse(size).bytes * 8 * 10**9 // question.access.down_rate.bit_s
    seconds = math.ceil((LOAD_FACTOR * transfer + SETTLE_RTTS * longest) / 1e9)
    return seconds * 10**9


def scenario(question: BreakEvenConfig) -> dict[str, Any]:
    """The scenario as parsed TOML. Raises ScenarioError for an unknown proxy."""
    if question.proxy not in PROXIES:
        raise ScenarioError(
            [("proxy", unknown_name(question.proxy, PROXIES, "kind of proxy"))], SOURCE_ARGUMENT
        )
    terminal, gateway = PROXIES[question.proxy]
    lan, middle, internet = split_rtt(question.rtts[0])
    return {
        "title": f"QUIC against split TCP, {question.access.title}",
        "duration": f"{duration_ns(question.sizes[0], question)} ns",
        "sample": "1 s",
        "seeds": question.seeds,
        "path": {
            "segment": [
                {"name": "lan", "delay": f"{lan} ns"},
                {"name": "access", "delay": f"{middle} ns", "down": dict(question.access.down),
                 "up": dict(question.access.up)},
                {"name": "internet", "delay": f"{internet} ns"},
            ],
            "proxy": [
                {"name": "terminal", "between": ["lan", "access"], **terminal},
                {"name": "gateway", "between": ["access", "internet"], **gateway},
            ],
        },
        "page": {page_name(size): {"object": [{"name": "object", "size": size}]} for size in question.sizes},
        "tcp": {"congestion": question.tcp},
        "flow": [
            {"name": "web", "congestion": question.controllers[0],
             "load": {"page": page_name(question.sizes[0]), "http": "3", "loads": 1}},
        ],
        "sweep": {"arm": _arms(question), "size": _sizes(question), "rtt": [_delays(rtt) for rtt in question.rtts]},
    }  # fmt: skip


def _arms(question: BreakEvenConfig) -> list[dict[str, Any]]:
    quic = [
        {"flow.web.load.http": "3", "flow.web.congestion": controller, "quic.initial_window": window}
        for controller in question.controllers
        for window in question.windows
    ]
    # What a QUIC controller would do does not matter to TCP: its keys stay at the first values.
    tcp = {
        "flow.web.load.http": "2",
        "flow.web.congestion": question.controllers[0],
        "quic.initial_window": question.windows[0],
    }
    return [tcp, *quic]


def _sizes(question: BreakEvenConfig) -> list[dict[str, Any]]:
    return [
        {"flow.web.load.page": page_name(size), "duration": f"{duration_ns(size, question)} ns"}
        for size in question.sizes
    ]


def _delays(rtt: str) -> dict[str, Any]:
    lan, middle, internet = split_rtt(rtt)
    return {
        "path.access.delay": f"{middle} ns",
        "path.internet.delay": f"{internet} ns",
        "path.lan.delay": f"{lan} ns",
    }


def axis(own: Duration | None) -> tuple[str, ...]:
    """Round-trip times of a map: :data:`RTTS`, with that of the access in the place of the nearest."""
    if own is None:
        return RTTS
    nearest = min(RTTS, key=lambda rtt: abs(math.log(Duration.parse(rtt).ns / own.ns)))
    return tuple(str(own) if rtt == nearest else rtt for rtt in RTTS)


def parse_config(
    access: Access,
    *,
    controllers: Sequence[str],
    windows: Sequence[str],
    tcp: str,
    proxy: str | None = None,
    sizes: Sequence[str] = SIZES,
    rtts: Sequence[str] | None = None,
    seeds: int | None = None,
) -> BreakEvenConfig:
    """The question that is asked in words; windows are numbers of packets, round-trip times those of :func:`axis`
    where none are given. Where the access has slots, seeds are :data:`SLOT_SEEDS` and the proxy, which cannot know a
    rate that is drawn, is pooled, unless they are said.

    Raises:
        ScenarioError: a word that is wrong, with the argument it was given for.
    """
    rtts = axis(access.rtt) if rtts is None else rtts
    lists = {"controllers": controllers, "windows": windows, "sizes": sizes, "rtts": rtts}
    for argument, words in lists.items():
        if not words:
            raise ScenarioError([(argument, "found nothing, expected at least one")], SOURCE_ARGUMENT)
        twice = next((word for word in words if words.count(word) > 1), None)
        if twice is not None:
            raise ScenarioError([(argument, f'found "{twice}" twice')], SOURCE_ARGUMENT)
    for window in windows:
        if not window.isdecimal() or int(window) == 0:
            raise ScenarioError(
                [("windows", f'found "{window}", expected packets such as 10')], SOURCE_ARGUMENT
            )
    proxy = proxy if proxy is not None else "pooled" if access.slotted else "rate-knowing"
    if proxy not in PROXIES:
        raise ScenarioError([("proxy", unknown_name(proxy, PROXIES, "kind of proxy"))], SOURCE_ARGUMENT)
    for argument, words, kind in (("sizes", sizes, Size), ("rtts", rtts, Duration)):
        for word in words:
            try:
                kind.parse(word)
            except UnitError as error:
                raise ScenarioError([(argument, str(error))], SOURCE_ARGUMENT) from None
    return BreakEvenConfig(
        access,
        tuple(sorted(sizes, key=lambda size: Size.parse(size).bytes)),
        tuple(sorted(rtts, key=lambda rtt: Duration.parse(rtt).ns)),
        tuple(controllers),
        tuple(f"{window} packets" for window in windows),
        tcp,
        proxy,
        seeds if seeds is not None else SLOT_SEEDS if access.slotted else 1,
    )
