"""A scenario: what its TOML file says, as typed tables with quantities in units; what is wrong is said by its
key.

Nothing here runs anything, or knows how it is run. In the order of reading: ``units`` and ``radio_units``,
``problems`` and ``quantities``, of which every table is made; ``generated`` (with ``rules`` and ``hooks``),
``slots``, ``channel``, ``acm``, ``link_layer``, ``nr``, ``scheduler``, ``path``, ``handover``, ``orbit``
(with ``places`` and ``constellations``), ``contact_plan``, ``integrity`` and ``bundles``, ``tcp``, ``quic``,
``proxy``, ``codecs`` and ``call``, ``load``, ``web_page`` and ``page_load``, the tables; ``model``, the
whole; ``sweep``, which names its places, and ``columns``, what these are called in frames; ``presets``,
``examples``, ``traces`` and ``har`` (with ``har_entries`` and ``har_urls``), which read other files;
``shipped``, where lies what comes with bentpipe; ``tomltext``, which writes TOML; ``input_file``, which opens
files of strangers, ``plain_text``, without control characters, and ``address_space``, which may be short.

The tables of which a scenario is composed in Python are here by their names, loaded when they are asked for
(docs/manual/python.md).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bentpipe.scenario.base import *
    from bentpipe.scenario.dtn.integrity import *
    from bentpipe.scenario.dtn.nodes import *
    from bentpipe.scenario.errors import *
    from bentpipe.scenario.flow.datagrams import *
    from bentpipe.scenario.flow.page_load import *
    from bentpipe.scenario.flow.proxy import *
    from bentpipe.scenario.flow.quic import *
    from bentpipe.scenario.flow.tcp import *
    from bentpipe.scenario.link.arq import *
    from bentpipe.scenario.link.channel import *
    from bentpipe.scenario.link.generated import *
    from bentpipe.scenario.link.handover import *
    from bentpipe.scenario.link.nr import *
    from bentpipe.scenario.link.scheduler import *
    from bentpipe.scenario.model import *
    from bentpipe.scenario.network.constellations import *
    from bentpipe.scenario.network.contact_plan import *
    from bentpipe.scenario.network.orbit import *
    from bentpipe.scenario.network.places import *
    from bentpipe.scenario.network.topology import *
    from bentpipe.scenario.quantities import *
    from bentpipe.scenario.web_page import *

_MODULES = (
    "errors", "quantities", "network.places", "base", "link.generated", "link.channel", "link.arq", "link.nr",
    "link.scheduler", "flow.tcp", "flow.quic", "link.handover", "flow.proxy", "network.topology",
    "flow.datagrams", "network.constellations", "network.orbit", "web_page", "flow.page_load",
    "network.contact_plan", "dtn.nodes", "model",
)  # fmt: skip
"""Whose classes are here: each after those that it is made of."""


def __getattr__(name: str) -> Any:
    """Loads a class when it is asked for."""
    if name == "__all__":
        return __dir__()
    for module in _MODULES if name[:1].isupper() else ():  # modules of this package are asked for here too
        if (found := _classes(module).get(name)) is not None:
            return found
    raise AttributeError(f"module 'bentpipe.scenario' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What scenarios are composed of."""
    return sorted(name for module in _MODULES for name in _classes(module))


def _classes(module: str) -> dict[str, type]:
    """Tables, quantities and errors that a module has itself."""
    whole = importlib.import_module(f"bentpipe.scenario.{module}")
    own = {name: one for name, one in vars(whole).items() if isinstance(one, type) and name[:1].isupper()}
    return {name: one for name, one in own.items() if one.__module__ == whole.__name__}
