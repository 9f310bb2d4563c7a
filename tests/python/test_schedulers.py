"""Schedulers of users: from a scenario to shares of a link."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bentpipe.lab.emulation.build import FIRST_PORT, lab_plan
from bentpipe.lab.plan_validation import validate_plan
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.scenario import QueueSize, ScenarioError, UnitError
from bentpipe.store.codec import decode

CHANNEL = {"model": "rayleigh", "snr": "10 dB", "speed": "30 km/h", "frequency": "2 GHz"}
LAYER = {"scheme": "harq-2", "frame": "1115 B", "code_rate": "3/4"}
AVERAGE = {"quantity": "channel", "window_ns": 1_667_000_000}


def document(scheduler: Any = "round-robin", count: int | None = 4, **down: Any) -> dict[str, Any]:
    """A few terminals below one satellite."""
    flow: dict[str, Any] = {
        "name": "web",
        "direction": "down",
        "congestion": "cubic",
        "load": {"time": "3 s"},
    }
    if count is not None:
        flow["count"] = count
    direction = {"rate": "20 Mbit/s", "queue": "1 BDP", "scheduler": scheduler} | down
    own = {key: value for key, value in direction.items() if value is not None}
    return {
        "duration": "3 s",
        "sample_interval": "1 s",
        "path": {"segment": [{"name": "s", "delay": "50 ms", "up": {"rate": "20 Mbit/s"}, "down": own}]},
        "flow": [flow],
    }


def radio(scheduler: Any, count: int | None = 4, **down: Any) -> dict[str, Any]:
    return document(scheduler, count, channel=CHANNEL, link_layer=LAYER, **down)


def spec_of(data: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(build_plan(load_scenario(data), "test").runs[0].spec_json())
    return spec


def queue_of(data: dict[str, Any]) -> dict[str, Any]:
    queue: dict[str, Any] = spec_of(data)["graph"]["links"][0]["down"][0]["queue"]
    return queue


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        ("round-robin", {"name": "round_robin"}),
        ("maximum-rate", {"name": "maximum_rate"}),
        ("proportional-fair", {"name": "proportional_fair", "average": AVERAGE}),
        (
            {"name": "proportional-fair", "average": "served", "window": "300 ms"},
            {"name": "proportional_fair", "average": {"quantity": "served", "window_ns": 300_000_000}},
        ),
        ("codes", {"name": "codes", "average": AVERAGE, "time_limit_ns": 100_000_000}),
        (
            {"name": "m-lwdf", "delay": "150 ms", "violation_ratio": "1 %", "best_effort": ["web"]},
            {
                "name": "m_lwdf", "average": AVERAGE,
                "deadline": {"delay_ns": 150_000_000, "violation_ratio": 0.01, "best_effort": [1, 2, 3, 4]},
            },
        ),
        (
            {"name": "deficit-round-robin", "weights": {"web": 2.5}},
            {"name": "deficit_round_robin", "quantum_bytes": 1500, "weights": [[n, 2.5] for n in (1, 2, 3, 4)]},
        ),
    ],
)  # fmt: skip
def test_words_become_the_engine_s(scheduler: Any, expected: dict[str, Any]) -> None:
    assert queue_of(radio(scheduler))["scheduler"] == expected


def test_drop_tail_is_one_queue_as_without_a_scheduler() -> None:
    assert spec_of(document("drop-tail")) == spec_of(document(None))


def test_sizes_are_divided_by_users_each_or_together() -> None:
    whole = queue_of(document("drop-tail"))["limit"]["bytes"]
    assert whole == 250_000
    assert queue_of(document(queue="1 BDP/sqrt(n)"))["limit"] == {"bytes": whole // 2}
    assert queue_of(document(queue="1 BDP/n"))["limit"] == {"bytes": whole // 4}
    assert queue_of(document(queue="1 BDP/sqrt(n)/n"))["limit"] == {"bytes": whole // 8}
    assert queue_of(document("drop-tail", queue="953 packets/sqrt(n)/n"))["limit"] == {"packets": 119}
    together = queue_of(document({"name": "round-robin", "queue_scope": "shared"}, queue="40 packets/n"))
    assert (together["limit"], together["total"]) == (None, {"packets": 10})
    assert str(QueueSize.parse("953 packets / sqrt(n) / n")) == "953 packets/sqrt(n)/n"
    assert QueueSize.parse("3 packets/n").for_users(100) == QueueSize.parse("1 packets")
    for wrong in ("1 BDP/m", "1 BDP/n/n", "none/n", "1 BDP/"):
        with pytest.raises(UnitError, match="sqrt"):
            QueueSize.parse(wrong)


@pytest.mark.parametrize(
    ("data", "key", "text"),
    [
        (radio("proportional-fare"), "path.s.down.scheduler", 'did you mean "proportional-fair"?'),
        (radio("pf"), "path.s.down.scheduler", 'did you mean "proportional-fair"?'),
        (radio("ubmt"), "path.s.down.scheduler", "no formula is public"),
        (radio("BBS"), "path.s.down.scheduler", "no formula is public"),
        (
            radio("bps"),
            "path.s.down.scheduler",
            'found "bps", of which no formula is public; expected one of: drop-tail',
        ),
        (radio("proportional-fair", count=None), "path.s.down.scheduler", "all flows belong to one user"),
        (document(aqm="codel"), "path.s.down.scheduler", "one queue for all users"),
        (document(netem=True), "path.s.down.scheduler", "one queue for all users"),
        (document(rate=None, queue=None), "path.s.down.scheduler", "requires a rate"),
        (document("maximum-rate"), "path.s.down.scheduler", "which requires channel"),
        (
            radio({"name": "codes", "queue_scope": "every"}),
            "path.s.down.scheduler.queue_scope",
            "expected one of: per-user, shared",
        ),
        (radio({"name": "round-robin", "window": "1 s"}), "path.s.down.scheduler", "found window beside"),
        (radio({"name": "drop-tail", "queue_scope": "shared"}), "path.s.down.scheduler", "one queue for all"),
        (radio({"name": "maximum-rate", "csi_delay": "2 s"}), "path.s.down.scheduler", "at most 1 s"),
        (radio({"name": "exp-pf", "violation_ratio": "0 %"}), "path.s.down.scheduler", "between 0 and 1"),
        (
            radio({"name": "m-lwdf", "best_effort": ["wep"]}),
            "path.s.down.scheduler.best_effort",
            'did you mean "web"?',
        ),
        (
            document({"name": "deficit-round-robin", "weights": {"gold": 2}}),
            "path.s.down.scheduler.weights",
            'no user or flow "gold"',
        ),
        (document(count=0), "flow.web.count", "found 0, expected at least 1"),
    ],
)
def test_invalid_combinations_are_reported_by_key(data: dict[str, Any], key: str, text: str) -> None:
    with pytest.raises(ScenarioError) as error:
        spec_of(data)
    (found,) = error.value.problems
    assert found[0] == key
    assert text in found[1]


def test_more_users_than_can_be_distinguished() -> None:
    data = document(count=10_000)
    data["flow"] = [{**data["flow"][0], "name": f"web{n}"} for n in range(7)]
    with pytest.raises(ScenarioError, match=r"found 70,000 users of all flows, expected at most 65,535"):
        spec_of(data)


def ran(data: dict[str, Any]) -> dict[str, pl.DataFrame]:
    return dict(decode(engine.run(json.dumps(spec_of(data)))).tables)


@pytest.mark.parametrize(
    "scheduler",
    ["round-robin", "maximum-rate", "proportional-fair", "codes", "m-lwdf", "exp-pf", "deficit-round-robin"],
)
def test_every_scheduler_runs_and_counts_its_users(scheduler: str) -> None:
    tables = ran(radio(scheduler))
    queues = tables["user_queues"]
    assert queues["user"].to_list() == [1, 2, 3, 4]
    assert set(queues["link"]) == {"s.down"}
    by_channel = scheduler not in ("round-robin", "deficit-round-robin")
    assert queues["best_channel_s"].is_not_null().all() == by_channel
    if by_channel:
        assert 2.0 < queues["best_channel_s"].sum() <= 3.0
    out = pl.sum_horizontal(
        "sent_packets",
        "queued_packets",
        "dropped_overflow_packets",
        "dropped_deadline_packets",
        "dropped_outage_packets",
    )
    assert queues.select((out == pl.col("arrived_packets")).all()).item()
    assert (queues["sent_packets"] > 50).all()


def test_weights_are_shares_of_bytes() -> None:
    data = document({"name": "deficit-round-robin", "weights": {"gold": 3}}, queue="none")
    flow = {"direction": "down", "congestion": "cubic", "load": {"time": "20 s"}}
    data["flow"] = [{**flow, "name": "gold", "user": "gold"}, {**flow, "name": "others", "count": 2}]
    data["duration"] = "20 s"
    tables = ran(data)
    had = tables["flow_summary"].filter(pl.col("side") == "client").sort("flow")["received_bytes"].to_list()
    assert had[0] / had[1] == pytest.approx(3, rel=0.1)
    assert had[1] == pytest.approx(had[2], rel=0.1)


def test_the_port_of_its_server_identifies_a_user_in_a_lab(tmp_path: Path) -> None:
    data = radio("proportional-fair", count=3)
    data["flow"][0] |= {"transport": "tcp", "load": {"time": "1 s"}}
    spec = spec_of(data)
    plan = lab_plan(spec, tmp_path, "bentpipe-rt").plan
    assert plan["lab"]["users"] == [(FIRST_PORT + number, number + 1) for number in range(3)]
    validate_plan(plan)
    assert "users" not in lab_plan(spec_of(alone()), fresh(tmp_path), "bentpipe-rt").plan["lab"]


def alone() -> dict[str, Any]:
    data = document(None, count=None)
    data["flow"][0] |= {"transport": "tcp", "load": {"time": "1 s"}}
    return data


def fresh(folder: Path) -> Path:
    (folder / "alone").mkdir()
    return folder / "alone"


def test_the_engine_refuses_users_that_it_cannot_count() -> None:
    spec = spec_of(document())
    spec["flows"][0]["user"] = 65_536
    with pytest.raises(ValueError, match="user 65536, expected less than 65536"):
        engine.run(json.dumps(spec))
