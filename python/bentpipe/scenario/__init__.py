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
    from bentpipe.scenario.bundles import *
    from bentpipe.scenario.call import *
    from bentpipe.scenario.channel import *
    from bentpipe.scenario.constellations import *
    from bentpipe.scenario.contact_plan import *
    from bentpipe.scenario.generated import *
    from bentpipe.scenario.handover import *
    from bentpipe.scenario.integrity import *
    from bentpipe.scenario.link_layer import *
    from bentpipe.scenario.model import *
    from bentpipe.scenario.nr import *
    from bentpipe.scenario.orbit import *
    from bentpipe.scenario.page_load import *
    from bentpipe.scenario.path import *
    from bentpipe.scenario.places import *
    from bentpipe.scenario.problems import *
    from bentpipe.scenario.proxy import *
    from bentpipe.scenario.quantities import *
    from bentpipe.scenario.quic import *
    from bentpipe.scenario.scheduler import *
    from bentpipe.scenario.tcp import *
    from bentpipe.scenario.units import *
    from bentpipe.scenario.web_page import *

_MODULES = (
    "problems", "units", "places", "quantities", "generated", "channel", "link_layer", "nr", "scheduler", "tcp", "quic",
    "handover", "proxy", "path", "call", "constellations", "orbit", "web_page", "page_load", "contact_plan",
    "bundles", "model",
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
