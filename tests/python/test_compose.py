"""Scenarios composed of classes equal their TOML."""

from __future__ import annotations

import importlib
from pathlib import Path as File
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bentpipe
from bentpipe import scenario as tables
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.scenario import (
    Congestion,
    Direction,
    Duration,
    Flow,
    Load,
    Path,
    Probability,
    QueueSize,
    Rate,
    Scenario,
    Segment,
    Size,
    WindowSize,
)
from bentpipe.scenario.base import to_toml_value
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.model import validate

ROOT = File(__file__).resolve().parents[2]
FILES = sorted((ROOT / "scenarios").glob("*.toml"))

IN_WORDS = {
    "title": "Two delays",
    "duration": "2 s",
    "seeds": 2,
    "path": {
        "segment": [
            {
                "name": "satellite",
                "delay": "50 ms",
                "both": {"rate": "10 Mbit/s", "queue": "1 BDP"},
                "up": {"loss": "0.1 %"},
            }
        ]
    },
    "flow": [{"name": "bulk", "congestion": "cubic", "load": {"time": "1 s"}}],
    "sweep": {"path.satellite.delay": ["15 ms", "50 ms"]},
}
COMPOSED = Scenario(
    title="Two delays",
    duration=Duration.parse("2 s"),
    seeds=(1, 2),
    path=Path(
        segment=[
            Segment(
                name="satellite",
                delay="50 ms",
                both=Direction(rate="10 Mbit/s", queue=QueueSize.parse("1 BDP")),
                up=Direction(loss="0.1 %"),
            )
        ]
    ),
    flow=[Flow(name="bulk", congestion=Congestion(name="cubic"), load=Load(time="1 s"))],
    sweep={"path.satellite.delay": [Duration.parse("15 ms"), "50 ms"]},
)


def ids(source: object) -> list[str]:
    return [run.id for run in build_plan(load_scenario(source), "test").runs]


def test_a_composed_scenario_is_the_same_runs() -> None:
    assert ids(COMPOSED.to_dict()) == ids(IN_WORDS)
    assert bentpipe.check(COMPOSED).bounds == bentpipe.check(IN_WORDS).bounds


def test_tables_of_words_may_hold_classes() -> None:
    mixed = {**IN_WORDS, "path": COMPOSED.path, "flow": [*COMPOSED.flow]}
    assert ids(to_toml_value(mixed)) == ids(IN_WORDS)
    assert bentpipe.check(mixed).runs == 4


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_written_scenario_equals_its_file(file: File) -> None:
    document = load_scenario(file)
    scenario = validate(document.data)
    again = validate(scenario.to_dict())
    assert again == scenario
    assert again.to_dict() == scenario.to_dict()


COUNTS = st.integers(1, 10**9)


@given(
    st.builds(Duration, st.integers(0, 2**62))
    | st.builds(Rate, st.integers(1, 2**62))
    | st.builds(Size, st.integers(0, 2**62))
    | st.builds(Probability, st.just(0.0) | st.floats(1e-12, 1))
    | st.builds("{} {}".format, COUNTS, st.sampled_from(["packets", "B", "kB", "ms"])).map(QueueSize.parse)
    | st.floats(0.01, 100).map("{:.2f} BDP".format).map(QueueSize.parse)
    | st.just("none").map(QueueSize.parse)
    | st.builds("{} {}".format, COUNTS, st.sampled_from(["packets", "B"])).map(WindowSize.parse)
)
def test_a_quantity_is_taken_as_it_is_and_its_text_is_the_same_quantity(quantity: object) -> None:
    kind: Any = type(quantity)
    assert kind.parse(quantity) is quantity
    assert kind.parse(str(quantity)) == quantity


def test_errors_are_reported_where_a_scenario_is_composed() -> None:
    with pytest.raises(
        ScenarioError, match=r'^Segment: delay: found 250 without a unit.*did you mean "250 ms"'
    ):
        Segment(name="satellite", delay=250)
    with pytest.raises(ScenarioError, match="expected exactly one of"):
        Load(time="1 s", bytes="1 MB")
    with pytest.raises(ScenarioError, match=r'^Segment: dely: no key "dely".*did you mean "delay"'):
        Segment(name="satellite", dely="5 ms")
    with pytest.raises(
        ScenarioError, match=r'^Path: preset: no preset "geo-konect".*did you mean "geo-konnect"'
    ):
        Path(preset="geo-konect")
    with pytest.raises(
        ScenarioError,
        match=r'^Scenario: duration: missing, expected a duration above 0 such as "10 s"\nScenario: flow: missing',
    ):
        Scenario()


def test_a_table_shows_the_keys_that_it_was_given() -> None:
    assert repr(Load(time="5 s")) == "Load(time='5 s')"


def test_every_table_is_at_its_documented_place() -> None:
    for name in tables.__all__:
        found = getattr(tables, name)
        assert getattr(importlib.import_module(found.__module__), name) is found
    assert dir(tables) == tables.__all__
    with pytest.raises(AttributeError, match="no attribute 'Segmnt'"):
        tables.Segmnt  # noqa: B018


def test_type_checkers_find_all_names() -> None:
    """A module with ``__all__`` exports each class of a scenario."""
    for name in tables.__all__:
        home = importlib.import_module(getattr(tables, name).__module__)
        assert name in getattr(home, "__all__", (name,)), f"{home.__name__}: {name}"
