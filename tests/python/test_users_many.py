"""A thousand users on one link: each has a queue, and every packet of each is accounted for."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.store.codec import decode

USERS, LIMIT = 1_000, 4
SERVED = {"name": "proportional_fair", "average": {"quantity": "served", "window_ns": 1_667_000_000}}


def asked(scheduler: str | dict[str, Any]) -> dict[str, Any]:
    """A thousand TCP users over a wired link, of which the engine knows no channel but one that is perfect for all."""
    down = {"rate": "100 Mbit/s", "queue": f"{LIMIT} packets", "scheduler": "round-robin"}
    if isinstance(scheduler, str):
        down["scheduler"] = scheduler
    flow = {"name": "web", "count": USERS, "transport": "tcp", "congestion": "cubic", "direction": "down"}
    scenario = {
        "duration": "5 s", "sample_interval": "5 s",
        "path": {"segment": [{"name": "s", "delay": "10 ms", "up": {"rate": "100 Mbit/s"}, "down": down}]},
        "flow": [flow],
    }  # fmt: skip
    spec: dict[str, Any] = json.loads(
        build_plan(load_scenario(scenario), engine.version()).runs[0].spec_json()
    )
    if not isinstance(scheduler, str):
        queues = [stage["queue"] for stage in spec["graph"]["links"][0]["down"] if "queue" in stage]
        queues[0]["scheduler"] = scheduler
    return spec


@pytest.mark.parametrize(
    "scheduler", ["round-robin", "deficit-round-robin", SERVED], ids=["turns", "bytes", "served"]
)
def test_a_thousand_users_are_each_accounted_for(scheduler: str | dict[str, Any]) -> None:
    tables = decode(engine.run(json.dumps(asked(scheduler)))).tables
    queues = tables["user_queues"].filter(link="s.down").sort("user")
    assert queues["user"].to_list() == list(range(1, USERS + 1))
    dropped = pl.sum_horizontal(
        "dropped_overflow_packets", "dropped_deadline_packets", "dropped_outage_packets"
    )
    each = queues.with_columns(gone=pl.col("sent_packets") + dropped)
    inside = each["arrived_packets"] - each["gone"]
    assert inside.min() >= 0  # type: ignore[operator]
    assert inside.max() <= LIMIT  # type: ignore[operator]
    # the link had what they had: all came, were dropped or sent, but for one that is on the air
    link = tables["link_summary"].filter(link="s.down").row(0, named=True)
    assert each["arrived_packets"].sum() == link["arrived_packets"]
    assert each["dropped_overflow_packets"].sum() == link["dropped_overflow_packets"]
    sent = int(each["sent_packets"].sum())
    on_the_way = sent - link["delivered_packets"]
    # what has left and not arrived: 10 ms of the rate, and one in service
    assert 0 <= on_the_way <= 100e6 * 0.010 / 8 / 40 + 1
    assert link["delivered_bytes"] * 8 > 0.9 * 100e6 * 4.5
    # no user starves: each with a queue has had a share of it
    assert queues["sent_packets"].min() > 0.2 * sent / USERS  # type: ignore[operator]
