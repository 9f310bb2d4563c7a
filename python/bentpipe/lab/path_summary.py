"""Rates and round-trip time of an access in one line, as of its preset or scenario."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bentpipe.lab.access import PEP_SETUPS, needs_uplink_proxy
from bentpipe.metrics.intervals import format_significant
from bentpipe.plan.spec.queries import delays_ns, rate_bit_s
from bentpipe.scenario.presets import presets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.lab.access import SharedPath
    from bentpipe.plan.spec.run_spec import LinkSpec, StageSpec, TopologySpec

__all__ = ["describe_access"]

GEO_RTT_NS = 450_000_000
"""Round-trip time from which a path counts as geostationary, ns: four times 35 786 km at the speed of light are
477 ms."""

Range = tuple[float, float]


def describe_access(access: str, path: SharedPath, *, is_preset_changed: bool, pep: str | None) -> str:
    """Return the origin, rates, round-trip time and proxies of an access as text.

    Args:
        access: the preset or scenario file.
        path: its path.
        is_preset_changed: ``--set`` changes the preset, whose origin then is not that of the numbers.
        pep: handshake of a requested proxy.
    """
    return ", ".join(
        filter(
            None,
            [_origin(access, is_preset_changed=is_preset_changed), _numbers(path, pep)],
        )
    )


def _origin(access: str, *, is_preset_changed: bool) -> str:
    """Return the title of a preset and the basis of its numbers; empty for a scenario file."""
    found = next((preset for preset in presets() if preset.name == access), None)
    if found is None:
        return ""
    title = found.title.split(": ")[0]
    if is_preset_changed:
        return f"{title} (with --set)"
    return title if found.basis in title else f"{title} ({found.basis})"


def _numbers(path: SharedPath, pep: str | None) -> str:
    """Return rates and round-trip time as text; empty for a graph that is more than a chain of links."""
    graph = path.lab["graph"]
    if not _is_chain(graph):
        return ""
    links = graph["links"]
    rates = [f"{_format_rate(_rate(links, way))} {way}" for way in ("down", "up")]
    delays = [
        delays for link in links for way in ("up", "down") for delays in map(delays_ns, link[way]) if delays
    ]
    low, high = (sum(map(extreme, delays)) / 1e6 for extreme in (min, max))
    texts = [*rates, f"RTT {_format_range((low, high))} ms"]
    if _has_pep(path, pep):
        handshakes = [proxy["handshake"] for proxy in path.proxies]
        texts.append(f"with PEP{'s' * (len(handshakes) > 1)} ({', '.join(handshakes)})")
    elif low * 1e6 >= GEO_RTT_NS:
        texts.append(f"without PEP (--pep {' or '.join(PEP_SETUPS)} adds one)")
    return ", ".join(texts)


def _is_chain(graph: TopologySpec) -> bool:
    """Return whether the links of ``graph`` form one chain."""
    ends = Counter(end for link in graph["links"] for end in (link["client_side"], link["server_side"]))
    return len(graph["links"]) == len(ends) - 1 and max(ends.values(), default=0) <= 2


def _has_pep(path: SharedPath, pep: str | None) -> bool:
    """Return whether a proxy splits TCP before its end.

    The proxy of an uplink stands behind the whole path, so that it splits nothing.
    """
    if pep is not None or not path.proxies:
        return bool(path.proxies)
    return not (needs_uplink_proxy() and _is_at_server(path))


def _is_at_server(path: SharedPath) -> bool:
    """Return whether the only proxy is one link without stages in front of the server."""
    return len(path.proxies) == 1 and any(
        link["client_side"] == path.proxies[0]["node"]
        and link["server_side"] == path.lab["server"]
        and not link["up"]
        and not link["down"]
        for link in path.lab["graph"]["links"]
    )


def _rate(links: Iterable[LinkSpec], way: str) -> Range | None:
    """Return the smallest and the largest rate of the slowest stage, bit/s; None: unlimited or by a trace."""
    stages: list[StageSpec] = [
        stage for link in links for stage in (link["up"] if way == "up" else link["down"])
    ]
    ranges = [found for found in map(_stage_rate, stages) if found is not None]
    return (min(low for low, _ in ranges), min(high for _, high in ranges)) if ranges else None


def _stage_rate(stage: StageSpec) -> Range | None:
    if stage["kind"] == "transmit":
        service = stage["service"]
        if service["kind"] == "trace":
            mean = (
                len(service["opportunities_ns"]) * service["opportunity_bytes"] * 8e9 / service["repeat_ns"]
            )
            return mean, mean
        if service["kind"] == "reconfiguration":
            return float(min(service["rate_bit_s"])), float(max(service["rate_bit_s"]))
        rates = [service["rate_bit_s"], *(change["rate_bit_s"] for change in service.get("changes", ()))]
        return float(min(rates)), float(max(rates))
    rate = rate_bit_s(stage)
    return None if rate is None else (rate, rate)


def _format_rate(rate: Range | None) -> str:
    return "unlimited" if rate is None else f"{_format_range((rate[0] / 1e6, rate[1] / 1e6))} Mbit/s"


def _format_range(values: Range) -> str:
    """Return one number, or two with their range, to three significant digits."""
    low, high = (format_significant(value, 3) for value in values)
    return low if low == high else f"{low} to {high}"
