"""Scenario files as validated, typed tables with units. Nothing here runs a scenario.

- ``model``: the whole scenario, its flows and loads
- ``base``: base class and annotated types of all tables
- ``quantities``: durations, rates, sizes and other quantities with units
- ``quantity_text``: numbers with units as text, and suggestions for misspelt units
- ``radio_quantities``: quantities of radio links
- ``errors``: error messages with the key and the nearest valid name
- ``expected_value``: expected value of a key in words, for messages
- ``link``: tables of one direction of a link
- ``network``: paths, graphs, constellations, places and contact plans
- ``flow``: tables of transports, loads and proxies
- ``dtn``: bundle nodes and their security
- ``web_page``: objects and hosts of a web page
- ``user_mix``: kinds of users who share a link
- ``sweep``: dotted keys of a scenario, and the cells of a sweep
- ``sweep_columns``: column names of swept keys
- ``presets``: access networks and web pages of the package
- ``examples``: example scenarios of the package
- ``new_scenario``: commented scenario from rates, RTT, loss and load
- ``traces``: delay, rate, loss and attenuation over time from files
- ``har``: web pages from HAR files
- ``har_entries``: entries of a HAR file
- ``har_urls``: hosts and names of the URLs in a HAR file
- ``input_file``: bounded reading of untrusted files
- ``plain_text``: text without control characters
- ``toml_writer``: plain data as TOML
- ``package_data``: files of the package beside its modules
- ``address_space``: limit of the address space of the process

The package exports the table classes of a scenario and imports each on first use (docs/how-to/python.md).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bentpipe.scenario.base import *
    from bentpipe.scenario.dtn.generated import *
    from bentpipe.scenario.dtn.integrity import *
    from bentpipe.scenario.dtn.nodes import *
    from bentpipe.scenario.errors import *
    from bentpipe.scenario.flow.datagrams import *
    from bentpipe.scenario.flow.page_load import *
    from bentpipe.scenario.flow.proxy import *
    from bentpipe.scenario.flow.quic import *
    from bentpipe.scenario.flow.tcp import *
    from bentpipe.scenario.link.channel import *
    from bentpipe.scenario.link.direction import *
    from bentpipe.scenario.link.generated import *
    from bentpipe.scenario.link.generated_services import *
    from bentpipe.scenario.link.handover import *
    from bentpipe.scenario.link.scheduler import *
    from bentpipe.scenario.model import *
    from bentpipe.scenario.network.constellations import *
    from bentpipe.scenario.network.contact_plan import *
    from bentpipe.scenario.network.orbit import *
    from bentpipe.scenario.network.places import *
    from bentpipe.scenario.network.topology import *
    from bentpipe.scenario.quantities import *
    from bentpipe.scenario.quantity_text import *
    from bentpipe.scenario.web_page import *

_MODULES = (
    "errors", "quantity_text", "quantities", "network.places", "base", "link.channel", "link.generated",
    "link.generated_services", "link.scheduler", "flow.tcp", "flow.quic", "link.direction", "link.handover",
    "flow.proxy", "network.topology", "flow.datagrams", "network.constellations", "network.orbit", "web_page",
    "flow.page_load", "network.contact_plan", "dtn.nodes", "model",
)  # fmt: skip
"""Modules whose classes the package exports, in order of dependency."""


def __getattr__(name: str) -> Any:
    """Import a class on first use."""
    if name == "__all__":
        return __dir__()
    for module in _MODULES if name[:1].isupper() else ():  # a lower-case name is a submodule
        if (table := _classes(module).get(name)) is not None:
            return table
    raise AttributeError(f"module 'bentpipe.scenario' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names of the exported classes."""
    return sorted(name for module in _MODULES for name in _classes(module))


def _classes(module: str) -> dict[str, type]:
    """Return the public tables, quantities and errors that a module defines."""
    namespace = importlib.import_module(f"bentpipe.scenario.{module}")
    return {
        name: member
        for name, member in vars(namespace).items()
        if isinstance(member, type) and name[:1].isupper() and member.__module__ == namespace.__name__
    }
