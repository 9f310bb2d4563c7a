"""Input of a map, and the scenario that computes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bentpipe.break_even.access import Access
from bentpipe.plan.access import PROXIES, path_tables, split_rtt
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.quantities import Duration, Size, UnitError

__all__ = ["KINDS", "RTTS", "SIZES", "BreakEvenConfig", "Variant", "parse_config", "scenario"]

SIZES = tuple(f"{n} {unit}" for unit in ("kB", "MB") for n in (1, 3, 10, 30, 100, 300))[:-1]
"""Object sizes from 1 kB to 100 MB, two or three for each decade."""

RTTS = ("20 ms", "40 ms", "80 ms", "150 ms", "300 ms", "550 ms", "800 ms")
"""Round-trip times from optical fibre to a geostationary path with a slow gateway."""

LOAD_FACTOR = 4
"""Duration of a run as a multiple of the transfer time at the rate of the access, before ``SETTLE_RTTS``."""

SETTLE_RTTS = 60
"""Number of round trips added to the duration of a run."""

TCP_HTTP = "1.1"
"""Version of HTTP over TCP: that of HTTP/2 in browsers has a stream window of 6 MiB, which limits long objects."""

HEADERS = {"request": "433 B", "response_header": "300 B"}
"""Header blocks of HTTP/2 and HTTP/3 (docs/explanation/web.md), so that all variants have the same bytes."""

KINDS = tuple(PROXIES)
"""Names of the kinds of proxies, from the simplest to the best."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to load the object: QUIC, TCP without a proxy, or split TCP."""

    name: str
    http: str
    controller: str
    window: str
    """Initial window of QUIC; of TCP the first one, which TCP does not use."""
    proxy: str = ""
    """Kind of the proxies; empty: none. QUIC passes every proxy."""


@dataclass(frozen=True)
class BreakEvenConfig:
    """Input of a map."""

    access: Access
    sizes: tuple[str, ...] = SIZES
    rtts: tuple[str, ...] = RTTS
    """Round-trip times in ascending order, but that of the access (:attr:`own_rtt`) first."""
    controllers: tuple[str, ...] = ("cubic",)
    windows: tuple[str, ...] = ("10 packets",)
    tcp: str = "cubic"
    """Controller of the TCP servers, clients and proxies."""
    proxies: tuple[str, ...] = ("plain", "line-rate")
    seeds: int | None = None
    """Number of seeds of stochastic runs; None: those of a verdict if packets are lost or delayed at random, else 1."""

    @property
    def own_rtt(self) -> str:
        """RTT of the map nearest to that of the access; the longest if the access has none."""
        if self.access.rtt is None:
            return max(self.rtts, key=lambda rtt: Duration.parse(rtt).ns)
        own_ns = self.access.rtt.ns
        return min(self.rtts, key=lambda rtt: abs(math.log(Duration.parse(rtt).ns / own_ns)))

    @property
    def alternatives(self) -> tuple[Variant, ...]:
        """Variants without a proxy: QUIC with each controller and initial window, and TCP."""
        pairs = [(controller, window) for controller in self.controllers for window in self.windows]
        quic = (Variant(self._quic_name(*pair), "3", *pair) for pair in pairs)
        return (*quic, Variant("TCP", TCP_HTTP, self.controllers[0], self.windows[0]))

    def _quic_name(self, controller: str, window: str) -> str:
        """Return a name with the values that vary or are not the default."""
        named = [
            text
            for text, values, default in (
                (controller, self.controllers, "cubic"),
                (window.removesuffix(" packets"), self.windows, "10 packets"),
            )
            if values != (default,)
        ]
        return f"QUIC ({', '.join(named)})" if named else "QUIC"

    @property
    def split(self) -> tuple[Variant, ...]:
        """Split TCP with each kind of proxy."""
        return tuple(
            Variant(f"{kind} PEP", TCP_HTTP, self.controllers[0], self.windows[0], kind)
            for kind in self.proxies
        )

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All variants."""
        return (*self.alternatives, *self.split)


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
    """Return the scenario as parsed TOML. Its first runs are those at the RTT of the access."""
    return {
        "title": f"QUIC, TCP and split TCP, {config.access.title}",
        "duration": f"{duration_ns(config.sizes[0], config)} ns",
        "sample_interval": "1 s",
        "seeds": config.seeds or 1,
        "path": path_tables(config.access.down, config.access.up, config.rtts[0], config.proxies[0]),
        "page": {page_name(size): {"object": [{"name": "object", "size": size, **HEADERS}]} for size in config.sizes},
        "tcp": {"congestion": config.tcp},
        "flow": [
            {"name": "web", "congestion": config.controllers[0],
             "load": {"page": page_name(config.sizes[0]), "http": "3", "loads": 1}},
        ],
        "sweep": {"rtt": [_rtt_settings(rtt) for rtt in config.rtts],
                  "size": _sizes(config), "variant": [_variant_settings(one) for one in config.variants]},
    }  # fmt: skip


def _variant_settings(variant: Variant) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "label": variant.name,
        "flow.web.load.http": variant.http,
        "flow.web.congestion": variant.controller,
        "quic.initial_window": variant.window,
    }
    tables = PROXIES[variant.proxy] if variant.proxy else ({"handshake": "none"},) * 2
    for name, table in zip(("terminal", "gateway"), tables, strict=True):
        settings[f"path.{name}.handshake"] = table["handshake"]
        for side in ("client_side", "server_side"):
            settings[f"path.{name}.{side}.line_rate"] = table.get(side, {}).get("line_rate", False)
    return settings


def _sizes(config: BreakEvenConfig) -> list[dict[str, Any]]:
    return [
        {
            "label": size,
            "flow.web.load.page": page_name(size),
            "duration": f"{duration_ns(size, config)} ns",
        }
        for size in config.sizes
    ]


def _rtt_settings(rtt: str) -> dict[str, Any]:
    lan, access_delay, internet = split_rtt(rtt)
    return {
        "label": rtt,
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
    controllers: Sequence[str] | None = None,
    windows: Sequence[str] = ("10",),
    tcp: str = "cubic",
    pep: Sequence[str] | None = None,
    sizes: Sequence[str] = SIZES,
    rtts: Sequence[str] | None = None,
    seeds: int | None = None,
) -> BreakEvenConfig:
    """Parse the input of a map.

    Args:
        access: access network.
        controllers: congestion controllers of QUIC (default: cubic; with random loss of the access bbr too, because it
            does not reduce its rate at each loss).
        windows: initial windows of QUIC, in packets.
        tcp: controller of TCP.
        pep: names of :data:`KINDS` (default: plain and line-rate; plain and pooled for an access with slots,
            because no proxy knows a random rate).
        sizes: object sizes with units.
        rtts: round-trip times with units (default: those of :func:`axis`).
        seeds: number of seeds (default: see :attr:`BreakEvenConfig.seeds`).

    Raises:
        ScenarioError: a value is wrong, by argument.
    """
    rtts = axis(access.rtt) if rtts is None else rtts
    if controllers is None:
        controllers = ("cubic", "bbr") if access.lossy else ("cubic",)
    if pep is None:
        pep = ("plain", "pooled") if access.slotted else ("plain", "line-rate")
    _check_lists(controllers=controllers, windows=windows, pep=pep, sizes=sizes, rtts=rtts)
    config = BreakEvenConfig(
        access,
        tuple(sorted(sizes, key=lambda size: Size.parse(size).bytes)),
        tuple(sorted(rtts, key=lambda rtt: Duration.parse(rtt).ns)),
        tuple(controllers),
        tuple(f"{window} packets" for window in windows),
        tcp,
        tuple(kind for kind in KINDS if kind in pep),
        seeds,
    )
    own = config.own_rtt
    return replace(config, rtts=(own, *(rtt for rtt in config.rtts if rtt != own)))


def _check_lists(**lists: Sequence[str]) -> None:
    """Check the lists of a map's input. Raises ScenarioError by argument."""
    for argument, values in lists.items():
        if not values:
            raise ScenarioError([(argument, "found nothing, expected at least one")], SOURCE_ARGUMENT)
        duplicate = next((value for value in values if values.count(value) > 1), None)
        if duplicate is not None:
            raise ScenarioError([(argument, f'duplicate value "{duplicate}"')], SOURCE_ARGUMENT)
    for window in lists["windows"]:
        if not window.isdecimal() or int(window) == 0:
            raise ScenarioError(
                [("windows", f'found "{window}", expected packets such as 10')], SOURCE_ARGUMENT
            )
    for kind in lists["pep"]:
        if kind not in KINDS:
            raise ScenarioError([("pep", unknown_name(kind, KINDS, "kind of PEP"))], SOURCE_ARGUMENT)
    for argument, quantity, example in (("sizes", Size, "1 MB"), ("rtts", Duration, "600 ms")):
        for value in lists[argument]:
            try:
                parsed = quantity.parse(value)
            except UnitError as error:
                raise ScenarioError([(argument, str(error))], SOURCE_ARGUMENT) from None
            if parsed == quantity(0):
                text = f'found "{value}", expected a value above 0 such as "{example}"'
                raise ScenarioError([(argument, text)], SOURCE_ARGUMENT)
