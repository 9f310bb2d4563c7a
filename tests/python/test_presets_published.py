"""Presets beside the published figures of studies: the same numbers stand in both."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bentpipe.scenario.presets import page, segments
from bentpipe.scenario.quantities import Duration, Probability, Rate, Size

STUDIES = Path(__file__).parents[2] / "studies"


def published(study: str) -> dict[str, Any]:
    """The published figures of ``study``."""
    return tomllib.loads((STUDIES / study / "published.toml").read_text(encoding="utf-8"))


THOMAS, ETOSAT = published("thomas-2019"), published("etosat")


@pytest.mark.parametrize(
    ("preset", "name"), [("satcom-2018", "satcom"), ("geo-konnect", "satcom"), ("lte-4g", "lte")]
)
def test_accesses_of_thomas_2019(preset: str, name: str) -> None:
    found, stated = segments(preset), THOMAS["access"][name]
    link = next(part for part in found if "down" in part)
    assert Rate.parse(link["down"]["rate"]).bit_s == stated["down_mbps"] * 1e6
    assert Rate.parse(link["up"]["rate"]).bit_s == stated["up_mbps"] * 1e6
    assert 2 * sum(Duration.parse(part["delay"]).ns for part in found) == stated["rtt_ms"] * 1e6


@pytest.mark.parametrize("target", ["a", "b"])
def test_targets_of_thomas_2019(target: str) -> None:
    found, stated = page(f"target-{target}"), THOMAS["target"][target]
    assert sum(Size.parse(part["size"]).bytes for part in found.objects) == stated["bytes"]
    assert len(found.objects) == stated["objects"]


def test_every_result_has_a_criterion_with_a_reason() -> None:
    assert list(THOMAS["criterion"]) == list(THOMAS["results"])
    keys = {"where", "quantity", "direction", "factor", "tolerance", "why"}
    assert all(keys <= set(criterion) for criterion in THOMAS["criterion"].values())
    for criterion in THOMAS["criterion"].values():
        if isinstance(criterion["tolerance"], list):
            low, high = criterion["tolerance"]
            assert low <= criterion["factor"] <= high


def test_the_printed_model_follows_from_its_equation() -> None:
    satcom, model = THOMAS["access"]["satcom"], THOMAS["model"]
    window = THOMAS["stack"]["first_window_segments"] * model["segment_bytes"]
    rtt = satcom["rtt_ms"] / 1e3
    bdp = satcom["down_mbps"] * 1e6 * rtt / 8
    assert math.log2(bdp / 2 / window) * rtt == pytest.approx(model["computed_s"]["one_way_bdp"], abs=0.005)
    assert math.log2(bdp / window) * rtt == pytest.approx(model["computed_s"]["two_way_bdp"], abs=0.005)
    assert THOMAS["target"]["a"]["bytes"] / window == pytest.approx(113, abs=0.5)


@pytest.mark.parametrize("access", ETOSAT["access"], ids=lambda access: access["id"])
def test_accesses_of_the_draft(access: dict[str, Any]) -> None:
    (found,) = segments(f"quic4sat-{access['id']}")
    assert Rate.parse(found["down"]["rate"]).bit_s == access["down_mbps"] * 1e6
    assert Rate.parse(found["up"]["rate"]).bit_s == access["up_mbps"] * 1e6
    assert 2 * Duration.parse(found["delay"]).ns == ETOSAT["setup"]["rtt_ms"] * 1e6
    for way in ("down", "up"):
        assert found[way]["queue"] == ETOSAT["setup"]["queue"]
        assert Probability.parse(found[way].get("loss", "0 %")).value == access["loss"]


@pytest.mark.parametrize("access", ETOSAT["access"], ids=lambda access: access["id"])
def test_no_objective_is_below_its_floor(access: dict[str, Any]) -> None:
    """Two round trips and the bytes at the link's rate: an objective below that would be a slip of the pen."""
    for objective in access["objective"]:
        rate = access[f"{objective['send']}_mbps"] * 1e6
        floor = 2 * ETOSAT["setup"]["rtt_ms"] / 1e3 + objective["bytes"] * 8 / rate
        assert floor <= objective["seconds"]
        assert objective["bytes"] in ETOSAT["setup"]["report_after_bytes"]
