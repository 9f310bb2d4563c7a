"""Input of a map, and the scenario that computes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bentpipe.break_even.access import Access
from bentpipe.plan.access import find_proxy, path_tables, split_rtt
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.quantities import Duration, Size, UnitError

__all__ = ["RTTS", "SIZES", "BreakEvenConfig", "parse_config", "scenario"]

SIZES = tuple(f"{n} {unit}" for unit in ("kB", "MB") for n in (1, 3, 10, 30, 100, 300))[:-1]
"""Object sizes from 1 kB to 100 MB, two or three for each decade."""

RTTS = ("20 ms", "40 ms", "80 ms", "150 ms", "300 ms", "550 ms", "800 ms")
"""Round-trip times from optical fibre to a geostationary path with a slow gateway."""

LOAD_FACTOR = 4
"""Duration of a run as a multiple of the transfer time at the rate of the access, before ``SETTLE_RTTS``."""

SETTLE_RTTS = 60
"""Number of round trips added to the duration of a run."""

SLOT_SEEDS = 3
"""Default number of seeds for an access with random rates; the median of an odd number is a measured pair."""


@dataclass(frozen=True)
class BreakEvenConfig:
    """Input of a map."""

    access: Access
    sizes: tuple[str, ...] = SIZES
    rtts: tuple[str, ...] = RTTS
    controllers: tuple[str, ...] = ("cubic", "bbr")
    windows: tuple[str, ...] = ("10 packets", "32 packets")
    tcp: str = "cubic"
    """Controller of the TCP servers and clients."""
    proxy: str = "line-rate"
    seeds: int = 1


def page_name(size: str) -> str:
    """Return the name of the page with one object of this size."""
    return "size-" + size.replace(" ", "-").replace(".", "-")


def duration_ns(size: str, config: BreakEvenConfig) -> int:
    """Return the duration in ns of the runs that load an object of this size."""
    longest_rtt_ns = max(Duration.parse(rtt).ns for rtt in config.rtts)
    transfer = Size.parse(size).bytes * 8 * 10**9 // config.access.down_rate.bit_s
    seconds = math.ceil((LOAD_FACTOR * transfer + SETTLE_RTTS * longest_rtt_ns) / 1e9)
    return seconds * 10**9


def scenario(config: BreakEvenConfig) -> dict[str, Any]:
    """Return the scenario as parsed TOML.

    Raises:
        ScenarioError: the proxy is unknown.
    """
    return {
        "title": f"QUIC against split TCP, {config.access.title}",
        "duration": f"{duration_ns(config.sizes[0], config)} ns",
        "sample_interval": "1 s",
        "seeds": config.seeds,
        "path": path_tables(config.access.down, config.access.up, config.rtts[0], config.proxy),
        "page": {page_name(size): {"object": [{"name": "object", "size": size}]} for size in config.sizes},
        "tcp": {"congestion": config.tcp},
        "flow": [
            {"name": "web", "congestion": config.controllers[0],
             "load": {"page": page_name(config.sizes[0]), "http": "3", "loads": 1}},
        ],
        "sweep": {"arm": _transports(config),
                  "size": _sizes(config), "rtt": [_rtt_settings(rtt) for rtt in config.rtts]},
    }  # fmt: skip


def _transports(config: BreakEvenConfig) -> list[dict[str, Any]]:
    quic = [
        {"flow.web.load.http": "3", "flow.web.congestion": controller, "quic.initial_window": window}
        for controller in config.controllers
        for window in config.windows
    ]
    # The keys of QUIC do not affect TCP: they keep their first values.
    tcp = {
        "flow.web.load.http": "2",
        "flow.web.congestion": config.controllers[0],
        "quic.initial_window": config.windows[0],
    }
    return [tcp, *quic]


def _sizes(config: BreakEvenConfig) -> list[dict[str, Any]]:
    return [
        {"flow.web.load.page": page_name(size), "duration": f"{duration_ns(size, config)} ns"}
        for size in config.sizes
    ]


def _rtt_settings(rtt: str) -> dict[str, Any]:
    lan, access_delay, internet = split_rtt(rtt)
    return {
        "path.access.delay": f"{access_delay} ns",
        "path.internet.delay": f"{internet} ns",
        "path.lan.delay": f"{lan} ns",
    }


def axis(access_rtt: Duration | None) -> tuple[str, ...]:
    """Return :data:`RTTS` with the nearest value replaced by the round-trip time of the access."""
    if access_rtt is None:
        return RTTS
    nearest = min(RTTS, key=lambda rtt: abs(math.log(Duration.parse(rtt).ns / access_rtt.ns)))
    return tuple(str(access_rtt) if rtt == nearest else rtt for rtt in RTTS)


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
    """Parse the input of a map.

    Args:
        access: access network.
        controllers: congestion controllers of QUIC.
        windows: initial windows of QUIC, in packets.
        tcp: controller of TCP.
        proxy: a name of :data:`bentpipe.plan.access.PROXIES` (default: line-rate, or pooled for an access with
            slots, because no proxy knows a random rate).
        sizes: object sizes with units.
        rtts: round-trip times with units (default: those of :func:`axis`).
        seeds: number of seeds (default: :data:`SLOT_SEEDS` for an access with slots, else 1).

    Raises:
        ScenarioError: a value is wrong, by argument.
    """
    rtts = axis(access.rtt) if rtts is None else rtts
    lists = {"controllers": controllers, "windows": windows, "sizes": sizes, "rtts": rtts}
    for argument, values in lists.items():
        if not values:
            raise ScenarioError([(argument, "found nothing, expected at least one")], SOURCE_ARGUMENT)
        duplicate = next((value for value in values if values.count(value) > 1), None)
        if duplicate is not None:
            raise ScenarioError([(argument, f'duplicate value "{duplicate}"')], SOURCE_ARGUMENT)
    for window in windows:
        if not window.isdecimal() or int(window) == 0:
            raise ScenarioError(
                [("windows", f'found "{window}", expected packets such as 10')], SOURCE_ARGUMENT
            )
    proxy = proxy if proxy is not None else "pooled" if access.slotted else "line-rate"
    find_proxy(proxy)
    for argument, values, quantity in (("sizes", sizes, Size), ("rtts", rtts, Duration)):
        for value in values:
            try:
                quantity.parse(value)
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
