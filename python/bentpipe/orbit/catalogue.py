"""Named constellations and places."""

from __future__ import annotations

from bentpipe.metrics.format import CommandOutput, TextTable
from bentpipe.scenario.network.constellations import constellation_names, preset
from bentpipe.scenario.network.places import place_names, places_source

__all__ = ["list_names"]


def list_names() -> CommandOutput:
    """Return every preset with source and note, and every place."""
    rows = []
    for name in constellation_names():
        flies = preset(name)
        rows.append(
            {
                "constellation": name,
                "what": flies.title,
                "source": flies.source,
                "note": flies.note or None,
            }
        )
    places = place_names()
    return CommandOutput(
        {"constellations": rows, "places": places, "places_source": places_source()},
        (TextTable("", rows), "\nPlaces: " + ", ".join(places), f"Source of the places: {places_source()}."),
    )
