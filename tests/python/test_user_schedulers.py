"""Schedulers of users in Python: one that is the engine's, those that are wrong, and the conformance list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bentpipe
from bentpipe.api.run import RunsFailedError
from bentpipe.scenario import ScenarioError
from commands import bentpipe as command

SCENARIO: dict[str, Any] = {
    "title": "own",
    "duration": "4 s",
    "path": {
        "segment": [
            {
                "name": "s", "delay": "10 ms", "up": {"rate": "2 Mbit/s"},
                "down": {"rate": "4 Mbit/s", "queue": "20 packets", "scheduler": "mine"},
            }
        ]
    },
    "flow": [{"name": "web", "count": 4, "direction": "down", "congestion": "cubic", "load": {"time": "4 s"}}],
}  # fmt: skip


class Turns:
    """Round robin."""

    def __init__(self, config: Any) -> None:
        assert config.link == "s.down"
        assert config.seed == 1
        self.options = json.loads(config.options_json)
        self.turns: list[int] = []

    def choose(self, _now: int, waiting: list[Any]) -> Any:
        there = [one.user for one in waiting]
        self.turns = [user for user in self.turns if user in there]
        self.turns += [user for user in there if user not in self.turns]
        self.turns.append(self.turns.pop(0))
        return self.turns[-1]


def failure(kind: type) -> str:
    """Why a run with this class fails."""
    with pytest.raises(RunsFailedError) as found:
        bentpipe.run(SCENARIO, schedulers={"mine": kind})
    return found.value.summary.failed[0].error


def test_round_robin_in_python_is_the_engine_s() -> None:
    mine = bentpipe.run(SCENARIO, schedulers={"mine": Turns})
    settings = {"path.s.down.scheduler": "round-robin"}
    theirs = bentpipe.run(SCENARIO, settings=settings)
    for table in ("flows", "links", "flow_summary"):
        columns = [name for name in getattr(theirs, table).columns if name != "run"]
        assert getattr(mine, table).select(columns).equals(getattr(theirs, table).select(columns)), table
    runs = [results.sql("SELECT run FROM flow_summary").row(0) for results in (mine, theirs)]
    assert runs[0] != runs[1]


def test_it_gets_packets_and_their_outcomes() -> None:
    messages: dict[str, int] = {"arrived": 0, "delivered": 0, "bytes": 0, "air": 0}

    class Recorded(Turns):
        def arrived(self, now: int, user: int, _bytes: int) -> None:
            assert now >= 0
            assert 1 <= user <= 4
            messages["arrived"] += 1

        def served(self, _now: int, _user: int, size: int, air_ns: int, outcome: str) -> None:
            messages[outcome] += 1
            messages["bytes"] += size
            messages["air"] += air_ns

    results = bentpipe.run(SCENARIO, schedulers={"mine": Recorded})
    queues = results.sql(
        "SELECT sum(arrived_packets - dropped_overflow_packets), sum(sent_packets) FROM user_queues"
    )
    room, sent = queues.row(0)
    assert messages["arrived"] == room
    assert 0 <= sent - messages["delivered"] <= 1  # one may be on the link at the end
    assert messages["air"] == pytest.approx(messages["bytes"] * 8 / 4e6 * 1e9, rel=1e-6)


def test_options_reach_it_and_a_changed_one_is_another_run() -> None:
    class Optional(Turns):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            assert self.options == {"k": 3}

    settings = {"path.s.down.scheduler": {"name": "mine", "options": {"k": 3}}}
    assert bentpipe.run(SCENARIO, settings=settings, schedulers={"mine": Optional}).flow_summary.height == 8


def test_a_pause_leaves_the_link_alone_until_then() -> None:
    from bentpipe._engine import Pause

    class Late(Turns):
        """No user in the first second."""

        def choose(self, now: int, waiting: list[Any]) -> Any:
            return Pause(1_000_000_000) if now < 1_000_000_000 else super().choose(now, waiting)

    links = bentpipe.run(SCENARIO, settings={"sample_interval": "500 ms"}, schedulers={"mine": Late}).links
    down = links.filter(link="s.down").sort("time_s")
    sent = dict(zip(down["time_s"], down["delivered_bytes"], strict=True))
    assert sent[1.0] == 0
    assert sent[4.0] > 500_000

    class Past(Turns):
        def choose(self, now: int, _waiting: list[Any]) -> Any:
            return Pause(now)

    assert "it pauses at" in failure(Past)
    assert failure(Past).endswith("which has passed")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "TypeError: choose(...) is None, expected the number of a user who waits, or Pause(until_ns)"),
        ("you", "TypeError: choose(...) is 'you', expected the number of a user who waits"),
        (-1, "TypeError: choose(...) is -1, expected the number of a user who waits"),
        (77, "ValueError: choose(...): unknown user 77"),
    ],
)
def test_an_answer_that_is_nobody_fails_the_run(answer: object, message: str) -> None:
    class Wrong(Turns):
        def choose(self, _now: int, _waiting: list[Any]) -> Any:
            return answer

    assert failure(Wrong).startswith(f"scheduler mine: {message}")


@pytest.mark.parametrize("method", ["__init__", "choose", "arrived", "served"])
def test_an_exception_fails_the_run_with_its_line(method: str) -> None:
    def wrong(*_: Any) -> Any:
        return {}["x"]

    message = failure(type("Local.<locals>", (Turns,), {method: wrong}))
    assert message.startswith("scheduler mine: KeyError: 'x' (test_user_schedulers.py, line ")
    assert message.endswith(", in wrong)")


def test_names_that_are_not_there() -> None:
    with pytest.raises(ScenarioError, match='no scheduler "mine"'):
        bentpipe.run(SCENARIO)
    with pytest.raises(ScenarioError, match='did you mean "mine"'):
        bentpipe.run(SCENARIO, settings={"path.s.down.scheduler": "mime"}, schedulers={"mine": Turns})
    window = {"path.s.down.scheduler": {"name": "mine", "window": "1 s"}}
    with pytest.raises(ScenarioError, match="found window beside"):
        bentpipe.run(SCENARIO, settings=window, schedulers={"mine": Turns})
    options = {"path.s.down.scheduler": {"name": "round-robin", "options": {"k": 1}}}
    with pytest.raises(ScenarioError, match="found options beside"):
        bentpipe.run(SCENARIO, settings=options)
    with pytest.raises(ValueError, match="found schedulers beside engine"):
        bentpipe.run(SCENARIO, schedulers={"mine": Turns}, engine="emu")


RULES = {
    "longest": ("return max(waiting, key=lambda one: one.waited_ns).user", []),
    "nobody": ("return 4711", ["who-waits", "work-conserving"]),
    "priority": ("return min(one.user for one in waiting)", ["equal-shares", "no-starvation", "newcomer"]),
    "chance": ("import random; return random.choice(waiting).user", ["deterministic"]),
    "signal": ("return max(waiting, key=lambda one: one.rate).user", ["no-starvation", "no-signal"]),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_conformance_list_finds_what_is_wrong(tmp_path: Path, rule: str) -> None:
    body, expected = RULES[rule]
    text = f"class Mine:\n    def __init__(self, config): pass\n    def choose(self, now, waiting): {body}\n"
    (tmp_path / "mine.py").write_text(text)
    done = command(tmp_path, "check-scheduler", "mine.py", "--json")
    rows = json.loads(done.stdout)
    failed = [row["name"] for row in rows if not row["passed"]]
    if rule == "nobody":
        assert failed[0] == "who-waits"
        assert "first: unknown user 4711" in rows[0]["detail"]
    else:
        assert set(expected) <= set(failed)
        assert rule != "longest" or not failed
    assert done.returncode == (1 if failed else 0)


def test_intended_failures_are_marked(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n"
        "    exempt = {'no-starvation': 'the best alone', 'no-signal': 'the best alone'}\n"
        "    def __init__(self, config): pass\n"
        "    def choose(self, now, waiting): return max(waiting, key=lambda one: one.rate).user\n"
    )
    done = command(tmp_path, "check-scheduler", "mine.py")
    assert "exempt: the best alone" in done.stdout
    assert command(tmp_path, "check-scheduler", "maximum-rate").returncode == 0


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (
            "def choose(self, now, waiting): return 1 / 0",
            1,
            "ZeroDivisionError: division by zero (mine.py, line 3",
        ),
        ("def choose(self, now, waiting): return 'x'", 1, "expected the number of a user who waits"),
        ("exempt = {'starving': 'x'}\n    choose = lambda s, n, w: w[0].user", 1, "no check"),
        ("pass", 2, "mine.py: no scheduler class, expected one with a method choose"),
    ],
)
def test_a_broken_class_is_one_message(tmp_path: Path, body: str, status: int, message: str) -> None:
    (tmp_path / "mine.py").write_text(f"class Mine:\n    def __init__(self, config): pass\n    {body}\n")
    done = command(tmp_path, "check-scheduler", "mine.py")
    assert done.returncode == status
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
