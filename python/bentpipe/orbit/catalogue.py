"""The constellations and places that have names."""

from __future__ import annotations

from bentpipe.metrics.format import Answer, Table
from bentpipe.scenario.network.constellations import constellation_names, preset
from bentpipe.scenario.network.places import place_names, places_source

__all__ = ["listing"]


def listing() -> Answer:
    """Every preset with its source and its remark, and every place."""
    rows = []
    for name in constellation_names():
        flies = preset(name)
        rows.append(
            {
                "constellation": name,
                "what": flies.title,
                "source": flies.source,
                "remark": flies.remark or None,
            }
        )
    places = place_names()
    return Answer(
        {"constellations": rows, "places": places, "places_source": places_source()},
        (Table("", rows), "\nPlaces: " + ", ".join(places), f"Source of the places: {places_source()}."),
    )
