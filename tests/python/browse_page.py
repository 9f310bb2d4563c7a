"""A small page behind a small satellite: what tests of ``browse`` load."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FLOW", "HEAD", "SATELLITE", "SCENARIO", "written"]

HEAD = """
title = "A small page"
duration = "30 s"
"""
SATELLITE = """
[[path.segment]]
name = "satellite"
delay = "60 ms"
down = { rate = "25 Mbit/s" }
up = { rate = "5 Mbit/s" }
"""
FLOW = """
[[flow]]
name = "browser"
congestion = "cubic"
load = { page = "target-b" }
"""
SCENARIO = HEAD + SATELLITE + FLOW


def written(folder: Path) -> Path:
    """Its file, in ``folder``."""
    file = folder / "small.toml"
    file.write_text(SCENARIO)
    return file
