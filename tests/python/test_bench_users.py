"""Tests of ``python -m benchmarks users``: a packet costs the same among 10 users and 200, except for schedulers that read all channels."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import realtime
from benchmarks import users
from bentpipe.runners import engine
from bentpipe.store.codec import decode

CHILD = "import sys; from bentpipe.runners import engine; engine.run(open(sys.argv[1]).read())"


@pytest.mark.parametrize("case", users.CASES[:2], ids=lambda case: case.name)
def test_the_loop_does_as_much_for_a_packet_among_few_and_many(case: users.Case) -> None:
    """Events of the loop, of a long run less those of a short one: it comes, it leaves the link, it arrives."""
    for count in users.USERS:
        runs = [decode(engine.run(json.dumps(users.run_spec(case, count, seconds)))) for seconds in (1, 3)]
        packets, events = (getattr(runs[1], name) - getattr(runs[0], name) for name in ("packets", "events"))
        assert packets == 2 * users.RATE_BIT_S * users.LOAD / 8_000
        assert events == 3 * packets, count


@pytest.mark.nightly
def test_a_packet_takes_as_many_instructions_among_few_and_many(tmp_path: Path) -> None:
    """Round robin reads only the next user. Instructions are counted, because time depends on the machine."""
    realtime.need("valgrind")

    def counted(count: int, seconds: int) -> int:
        asked = tmp_path / "run.json"
        asked.write_text(json.dumps(users.run_spec(users.CASES[0], count, seconds)))
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={tmp_path / 'out'}"]
        done = subprocess.run(
            [*tool, sys.executable, "-c", CHILD, str(asked)],
            capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": "0"},
        )  # fmt: skip
        found = re.search(r"Collected : (\d+)", done.stderr)
        assert found is not None, done.stderr
        return int(found[1])

    packets = 4 * users.RATE_BIT_S * users.LOAD / 8_000
    few, many = ((counted(count, 5) - counted(count, 1)) / packets for count in (10, 200))
    assert few > 500
    assert many < 1.25 * few


def test_every_case_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "USERS", (3,))
    monkeypatch.setattr(users, "SHORT_S", 1)
    monkeypatch.setattr(users, "LONG_S", 12)  # enough of it on a busy machine, too
    messages: list[str] = []
    found = users.bench(1, messages.append)
    assert messages == [f"1 of 1: {case.name}, 3 users" for case in users.CASES]
    assert [(one.case, one.users) for one in found] == [(case.name, 3) for case in users.CASES]
    assert all(one.lowest == one.median == one.highest > 0 for one in found)
