"""A scenario: what its TOML file says, as typed tables with quantities in units; what is wrong is said by its key.

Nothing here runs anything, or knows how it is run. In the order of reading: ``units``, ``problems`` and ``quantities``,
of which every table is made; ``losses``, ``path``, ``handover``, ``tcp``, ``quic``, ``proxy``, ``load``, ``web_page``
and ``page_load``, the tables; ``model``, the whole; ``sweep``, which names its places, and ``columns``, what these are
called in frames; ``presets``, ``traces`` and ``har``, which read other files; ``tomltext``, which writes TOML.

The tables of which a scenario is composed in Python are here by their names, loaded when they are asked for
(docs/manual/python.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bentpipe.scenario.handover import GraphHandover, Moved, PathHandover
    from bentpipe.scenario.losses import BurstLoss, GilbertElliott, Loss
    from bentpipe.scenario.model import (
        DrawnSize,
        Flow,
        Limits,
        Load,
        OnOff,
        Pareto,
        Poisson,
        Scenario,
        Trace,
    )
    from bentpipe.scenario.path import (
        Access,
        Aqm,
        Change,
        Delay,
        Direction,
        Graph,
        Jitter,
        Link,
        LinkRate,
        Node,
        NormalJitter,
        Outage,
        Outages,
        Path,
        Reorder,
        Segment,
    )
    from bentpipe.scenario.problems import ScenarioError
    from bentpipe.scenario.proxy import Proxy, Side
    from bentpipe.scenario.quantities import Congestion
    from bentpipe.scenario.quic import Quic
    from bentpipe.scenario.tcp import Tcp
    from bentpipe.scenario.units import Duration, Probability, QueueSize, Rate, Size, WindowSize
    from bentpipe.scenario.web_page import Host, Page, PageObject, PageSource

_TABLES = {
    "handover": ("GraphHandover", "Moved", "PathHandover"),
    "losses": ("BurstLoss", "GilbertElliott", "Loss"),
    "model": (
        "DrawnSize", "Flow", "Limits", "Load", "OnOff", "Pareto", "Poisson", "Scenario", "Trace",
    ),
    "path": (
        "Access", "Aqm", "Change", "Delay", "Direction", "Graph", "Jitter", "Link",
        "LinkRate", "Node", "NormalJitter", "Outage", "Outages", "Path", "Reorder", "Segment",
    ),
    "problems": ("ScenarioError",),
    "proxy": ("Proxy", "Side"),
    "quantities": ("Congestion",),
    "quic": ("Quic",),
    "tcp": ("Tcp",),
    "units": ("Duration", "Probability", "QueueSize", "Rate", "Size", "WindowSize"),
    "web_page": ("Host", "Page", "PageObject", "PageSource"),
}  # fmt: skip
_HOME = {name: module for module, names in _TABLES.items() for name in names}

__all__ = [
    "Access", "Aqm", "BurstLoss", "Change", "Congestion", "Delay", "Direction", "DrawnSize", "Duration", "Flow",
    "GilbertElliott", "Graph", "GraphHandover", "Host", "Jitter", "Limits", "Link", "LinkRate", "Load", "Loss", "Moved",
    "Node", "NormalJitter", "OnOff", "Outage", "Outages", "Page", "PageObject", "PageSource", "Pareto", "Path",
    "PathHandover", "Poisson", "Probability", "Proxy", "QueueSize", "Quic", "Rate", "Reorder", "Scenario",
    "ScenarioError", "Segment", "Side", "Size", "Tcp", "Trace", "WindowSize",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads a table when it is asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'bentpipe.scenario' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"bentpipe.scenario.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """What scenarios are composed of."""
    return list(__all__)
