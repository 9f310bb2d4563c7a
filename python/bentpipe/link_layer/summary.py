"""Parameters of the path of a comparison in one sentence: rates, round-trip time and errors of the resolved plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.link_layer.access import Radio, find_radios
from bentpipe.link_layer.config import FLOW
from bentpipe.scenario.quantities import Duration, Rate
from bentpipe.scenario.toml_writer import inline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.link_layer.config import LinkLayerConfig
    from bentpipe.plan.network.graph import Hop
    from bentpipe.plan.plan import Plan

__all__ = ["describe_path"]


def describe_path(config: LinkLayerConfig, plan: Plan) -> str:
    """Return rates, round-trip propagation delay and errors of the path, from the first cell of the plan."""
    up, down = plan.cells[0].resolved.ways[FLOW][0]
    delay_ns = sum(hop.delay_min_ns for hop in (*up, *down))
    parts = [f"{_rate(down)} down", f"{_rate(up)} up", f"round trip {Duration(delay_ns)}"]
    path = plan.document.data.get("path") or config.access.path
    radios = find_radios(path) if "segment" in path else config.access.radios
    return f"{', '.join(parts)}; {'; '.join(_errors(radios))}"


def _rate(hops: Sequence[Hop]) -> str:
    rates = [hop.rate.bit_s for hop in hops if hop.rate is not None]
    return str(Rate(min(rates))) if rates else "no rate"


def _errors(radios: Sequence[Radio]) -> list[str]:
    """Return the errors of the radios; one text if both directions have the same."""
    texts = {radio.key: _error_text(radio) for radio in radios}
    if len(set(texts.values())) == 1:
        return list(texts.values())[:1]
    return [f"{key}: {text}" for key, text in texts.items()]


def _error_text(radio: Radio) -> str:
    rates = radio.table.get("block_error_rate")
    if rates is not None:
        return f"block error rate by attempt {', '.join(str(rate) for rate in rates)}"
    channel: dict[str, Any] = dict(radio.channel or {})
    model = channel.pop("model", "")
    values = ", ".join(
        f"{key.replace('_', ' ')} {value if isinstance(value, str) else inline(value)}"
        for key, value in channel.items()
    )
    return f"channel {model}{f' ({values})' if values else ''}"
