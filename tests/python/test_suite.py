"""The controllers' suite: scenario files, criteria, execution, JSON document and messages."""

from __future__ import annotations

import copy
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import bentpipe
import commands
import documented_commands
from bentpipe.metrics.verdicts import Verdict
from bentpipe.scenario.errors import ScenarioError
from bentpipe.suite.checks import CHECKS
from bentpipe.suite.config import Controller, parse_config
from bentpipe.suite.criterion import Criterion, judge
from bentpipe.suite.document import check_document
from bentpipe.suite.entry import Entry, entries, read_entry
from bentpipe.suite.execution import plan_parts
from bentpipe.suite.headline import headline_text
from bentpipe.suite.laws import ideal_slow_start, window_goodput
from bentpipe.suite.measures import measure_values
from bentpipe.suite.results import CellResult, CriterionResult, SuiteResult
from bentpipe.suite.tables import criterion_table, missed_rows, outcome_rows, reason_lines
from documented_commands import File

MINE = """
class Mine:
    def __init__(self, config):
        self.window = 40 * config.mss

    def on_event(self, now, event):
        return self.window
"""

PAGE = "docs/how-to/suite.md"

BROKEN = MINE.replace("return self", "raise RuntimeError('broken law')\n        return self")


@pytest.fixture(scope="module")
def known() -> list[Entry]:
    return entries()


def test_every_scenario_has_a_source_and_a_criterion_and_a_plan(known: list[Entry]) -> None:
    pytest.importorskip("bentpipe._engine")
    assert len(known) >= 18
    for entry in known:
        assert entry.suite.source
        assert entry.suite.question.endswith("?")
        assert entry.criteria
        for criterion in entry.criteria:
            has_source = criterion.source or criterion.published is not None or criterion.law is not None
            assert has_source, f"{entry.name}: a limit without a source"
        (part,) = plan_parts(parse_config(["newreno"], only=[entry.name], seeds=1))[:1]
        cells = [cell.values for cell in part.plan.cells]
        for criterion in entry.criteria:  # a cell that does not exist would never be judged
            texts = [{key: str(value).lower() if isinstance(value, bool) else str(value)
                      for key, value in cell.items()} for cell in cells]  # fmt: skip
            assert any(criterion.where.items() <= cell.items() for cell in texts), (
                entry.name,
                criterion.where,
            )


def test_the_page_lists_every_scenario(known: list[Entry]) -> None:
    text = (documented_commands.ROOT / PAGE).read_text(encoding="utf-8")
    for entry in (CHECKS, *known):
        row = f"| `{entry.name}` | {entry.suite.question} | {'yes' if entry.suite.quick else ''} |"
        assert row in text, f"add to {PAGE}: {row}"
    shown = re.findall(r"^\| `([\w-]+)` \| [^|]*\? \|", text, re.MULTILINE)
    assert shown == [entry.name for entry in (CHECKS, *known)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('measure = "finish_s"', 'measure = "finsh_s"', 'no measure "finsh_s"'),
        ('class = "bound"', 'clas = "bound"', 'no key "clas"'),
        ("at_least = 16.0", 'at_least = 16.0\npublished = 3.0\ntolerance = "5 %"', "exactly one of at_least/at_most"),
        ('tolerance = "10 %"', "", "expected a tolerance"),
        ('name = "main"', 'name = "other"', 'expected a flow "main"'),
        ('source = "draft', 'sourc = "draft', 'no key "sourc"'),
    ],
)  # fmt: skip
def test_a_wrong_scenario_has_a_message(
    tmp_path: Path, known: list[Entry], old: str, new: str, message: str
) -> None:
    del known
    import bentpipe.suite.entry as module

    text = (Path(module.__file__).parent / "scenarios/rtt-step.toml").read_text(encoding="utf-8")
    assert old in text
    file = tmp_path / "wrong.toml"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        read_entry(file)
    assert message in str(error.value)
    assert str(error.value).startswith("wrong.toml: ")


@pytest.mark.parametrize(
    ("keys", "values", "verdict"),
    [
        ({"at_most": 8.0}, (7.0, 7.1, 7.2), Verdict.AGREES),
        ({"at_most": 8.0}, (9.0, 9.1, 9.2), Verdict.DIFFERS),
        ({"at_most": 8.0}, (7.0, 9.0), Verdict.UNDECIDED),
        ({"at_least": 0.2, "at_most": 0.8}, (0.5, 0.5), Verdict.AGREES),
        ({"at_least": 0.2, "at_most": 0.8}, (0.1, 0.1), Verdict.DIFFERS),
        ({"published": 10.0, "tolerance": "5 %"}, (10.4, 10.4), Verdict.AGREES),
        ({"published": 10.0, "tolerance": "5 %"}, (10.6, 10.6), Verdict.DIFFERS),
        ({"at_most": 8.0}, (), Verdict.NOT_RUN),
    ],
)
def test_a_criterion_judges_the_interval(
    keys: dict[str, Any], values: tuple[float, ...], verdict: Verdict
) -> None:
    assert judge(Criterion(**{"measure": "finish_s", "class": "bound"}, **keys), values) is verdict


def test_laws_equal_their_published_points() -> None:
    """Points of Ott et al., RFC 9438 table 1 at 1.2, Caini and Firrincieli, and the growth of Westwood."""
    cell = {"path.link.down.loss": "0.1 %", "path.link.delay": "50 ms"}
    packets = 8 * 1420 / 0.1
    assert window_goodput("newreno", cell) == pytest.approx(41.4 * packets, rel=0.05)
    assert window_goodput("cubic", cell) == pytest.approx(1.2 * 38 * packets, rel=0.15)
    assert window_goodput("hybla", cell) == pytest.approx(4 * 41.4 * packets, rel=0.01)
    assert window_goodput("westwood", cell) is None  # 500 packets are more than half of the link
    assert window_goodput("", cell) is None
    one_window = {"flow.main.load.bytes": "11 kB", "path.link.down.rate": "250 Mbit/s"}
    # Handshake, request and answer: two round trips and the pacing of eight packets at 1.25 windows a round trip.
    assert ideal_slow_start("newreno", one_window) == pytest.approx(1.3 + 0.65 * 0.8 * 0.8, abs=0.01)
    full = {"flow.main.load.bytes": "10 MB", "path.link.down.rate": "10 Mbit/s"}
    assert 8.1 < (ideal_slow_start("newreno", full) or 0) < 13


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "geo-bul"], '--only: no scenario "geo-bul"'),
        (["--controller", "cubci"], '--controller: no controller "cubci"'),
        (["--controller", "mine=absent.py:Mine"], "absent.py"),
        (["--controller", "mine=cc.py:Other"], "Other"),
        (["--controller", ","], "--controller: found none"),
    ],
)
def test_bad_input_runs_nothing(tmp_path: Path, arguments: list[str], message: str) -> None:
    pytest.importorskip("bentpipe._engine")
    (tmp_path / "cc.py").write_text(MINE)
    done = commands.bentpipe(tmp_path, "suite", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_suite_with_a_broken_controller(tmp_path: Path) -> None:
    """A class that raises fails its own cells; the others run, and a second call reuses them."""
    pytest.importorskip("bentpipe._engine")
    (tmp_path / "cc.py").write_text(MINE)
    (tmp_path / "broken.py").write_text(BROKEN)
    arguments = ["suite", "--only", "window-cap", "--seeds", "1", "--controller"]
    done = commands.bentpipe(tmp_path, *arguments, "cubic,mine=cc.py:Mine,broken=broken.py:Mine", "--json")
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    outcomes = {cell["controller"]: cell["outcome"] for cell in data["cells"]}
    assert outcomes["broken"] == "error"
    assert outcomes["cubic"] in ("passes", "undecided")
    assert outcomes["mine"] != "error"
    (broken,) = (cell for cell in data["cells"] if cell["controller"] == "broken")
    assert "broken law" in broken["error"]
    assert check_document(data) == []
    command = next(cell["command"] for cell in data["cells"] if cell["controller"] == "mine")
    assert "--controller mine=cc.py:Mine" in command
    assert (tmp_path / "out/suite/suite.html").stat().st_size > 10_000
    again = commands.bentpipe(tmp_path, *arguments, "cubic")
    assert "0 runs in 0 s, 1 from earlier runs" in again.stdout


def _run_job(folder: Path, *changes: str) -> tuple[int, dict[str, Any]]:
    """Run the job of the page for a controller in Python, with fewer scenarios; return exit status and document."""
    files = {step.name: step.text for step in documented_commands.collect(PAGE) if isinstance(step, File)}
    (job,) = (
        one.text
        for one in documented_commands.job_commands(PAGE, files[".github/workflows/suite.yml"])
        if one.text.startswith("bentpipe ")
    )
    text = files["cc.py"]
    for change in changes:
        old, new = change.split(" -> ")
        assert old in text
        text = text.replace(old, new)
    (folder / "cc.py").write_text(text, encoding="utf-8")
    shorter = ["--only", "app-limited", "--seeds", "1"]
    done = commands.bentpipe(folder, *shlex.split(job)[1:], *shorter)
    data = json.loads((folder / "out/suite/suite.json").read_text(encoding="utf-8"))
    assert check_document(data) == []
    assert all(cell["implementation"] == "cc.py:Mine" for cell in data["cells"])
    assert '<h2 id="app-limited">' in (folder / "out/suite/suite.html").read_text(encoding="utf-8")
    return done.returncode, {cell["scenario"]: cell["outcome"] for cell in data["cells"]}


def test_the_job_of_the_page(tmp_path: Path) -> None:
    """Its class passes. An edited one, which ignores that the application limits it, breaks a bound."""
    pytest.importorskip("bentpipe._engine")
    status, outcomes = _run_job(tmp_path)
    assert (status, outcomes) == (0, {"app-limited": "passes"})
    status, outcomes = _run_job(tmp_path, "event.credited if slow_start -> self.mss if slow_start")
    assert (status, outcomes) == (1, {"app-limited": "fails"})


def test_a_scenario_without_a_criterion_is_on_the_page(tmp_path: Path) -> None:
    """No criterion of ACK aggregation concerns a class of the user."""
    pytest.importorskip("bentpipe._engine")
    (tmp_path / "cc.py").write_text(MINE)
    arguments = ["--only", "ack-aggregation", "--controller", "cc.py:Mine", "--seeds", "1"]
    done = commands.bentpipe(tmp_path, "suite", *arguments)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out/suite/suite.html").read_text(encoding="utf-8")
    assert "No criterion concerns these controllers." in page


def test_a_controller_against_another(tmp_path: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    done = commands.bentpipe(
        tmp_path,
        "suite",
        "--only",
        "step-up",
        "--seeds",
        "1",
        "--controller",
        "newreno",
        "--against",
        "cubic",
        "--json",
    )
    data = json.loads(done.stdout)
    (change,) = data["comparison"]
    assert (change["metric"], change["cell"]["controller"]) == ("finish_s", "newreno")
    assert 0.9 < change["effect"] < 1.2


def _document() -> dict[str, Any]:
    criterion = {
        "measure": "finish_s", "class": "bound", "relative_to": None, "cell": {}, "window_s": None, "at_least": None,
        "at_most": 8.0, "expected": None, "tolerance": None, "source": "x", "values": [7.0, 7.2], "mean": 7.1,
        "interval": [5.8, 8.4], "verdict": "agrees", "reason": "",
    }  # fmt: skip
    cell = {
        "scenario": "a", "controller": "c", "implementation": "c", "outcome": "passes", "error": "", "command": "x",
        "seeds": 2, "criteria": [criterion],
    }  # fmt: skip
    scenario = {"name": "a", "title": "A", "question": "?", "source": "x", "remark": ""}
    return {"format": "bentpipe-suite/1", "simulator": "other 1", "scenarios": [scenario], "cells": [cell]}


def test_tables_have_every_criterion_once(known: list[Entry]) -> None:
    """Two controllers share the row of a bound; each has the row of its own published value, and its missed criterion."""
    pytest.importorskip("bentpipe._engine")
    (entry,) = (one for one in known if one.name == "step-up")
    bound, *trends = entry.criteria
    results = {"cubic": (8.0, 8.02), "bbr3": (9.0, 9.02), "cc.py:Mine": (3.0, 3.02)}
    cells = []
    for label, values in results.items():
        name = label if label in ("cubic", "bbr3") else ""
        found = [
            CriterionResult(name, one, {}, values, None, judge(one, values))
            for one in (bound, *trends)
            if one.concerns(name) and not one.baseline
        ]
        cells.append(CellResult(entry, Controller(label, name), 2, tuple(found), {"": values}, {"": values}))
    result = SuiteResult(tuple(cells), "1.2.3")
    assert outcome_rows(result) == [
        {"scenario": "step-up", "cubic": "passes", "bbr3": "differs", "cc.py:Mine": "fails"}
    ]
    missed = {row["controller"]: (row["measured"], row["published"]) for row in missed_rows(result)}
    assert missed == {"bbr3": ("9.01 ± 0.13", "7.51 ± 5 %"), "cc.py:Mine": ("3.01 ± 0.13", "≥ 6.85")}
    assert reason_lines(result) == ["step-up, bbr3: 8.1 s without ProbeRTT. Version 1 has 7.5 s here."]
    table = criterion_table(result, "step-up")
    assert table is not None
    rows = {row["published"]: [row[label] for label in results] for row in table.text_rows()}
    assert rows == {
        "≥ 6.85": ["8.01 ± 0.13", "9.01 ± 0.13", "3.01 ± 0.13 fails"],
        "7.51 ± 5 %": ["", "9.01 ± 0.13 differs", ""],
        "8.05 ± 5 %": ["8.01 ± 0.13", "", ""],
    }
    assert [note.partition(":")[0] for note in table.notes] == ["Source of ≥ 6.85", "bbr3"]
    assert headline_text(result) == (
        "cc.py:Mine fails step-up. cubic and bbr3 meet every exact value and bound of 1 scenario. "
        "Scenarios that differ from published trends: bbr3 (1)."
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.pop("cells"), "cells: missing"),
        (lambda data: data.update(format="bentpipe-suite/9"), 'format: found "bentpipe-suite/9"'),
        (lambda data: data["cells"][0].update(scenario="b"), 'cells[0].scenario: "b" is not in scenarios'),
        (lambda data: data["cells"].append(copy.deepcopy(data["cells"][0])), "cells[1]: a second cell"),
        (
            lambda data: data["cells"][0].update(outcome="fails"),
            'cells[0].outcome: found "fails", but its criteria',
        ),
        (lambda data: data["cells"][0]["criteria"][0].update(mean=8.0), "expected the mean of values"),
        (
            lambda data: data["cells"][0]["criteria"][0].update(values=[1.0] * 3),
            "found 3, expected at most 2",
        ),
        (lambda data: data["cells"][0]["criteria"][0].update(verdict="good"), 'verdict: found "good"'),
        (
            lambda data: data["cells"][0]["criteria"][0].update(expected=3.0),
            "expected either at_least or at_most",
        ),
        (lambda data: data["cells"][0].update(seeds="2"), "cells[0].seeds: found str, expected a number"),
        (lambda data: data["cells"][0].update(more=1), "cells[0].more: unknown key"),
    ],
)
def test_the_checker_finds_what_is_wrong(change: Any, message: str) -> None:
    data = _document()
    assert check_document(data) == []
    change(data)
    assert any(message in problem for problem in check_document(data))


def _constant_rates(tmp_path: Path, rate: str, flows: dict[str, int], **direction: Any) -> Any:
    """Run senders of constant rates and return the store; the congestion controller reacts to nothing."""
    from bentpipe.store.reader import open_store

    scenario = {
        "duration": "20 s",
        "sample_interval": "100 ms",
        "seeds": 1,
        "path": {"segment": [{"name": "link", "delay": "50 ms", "up": {"rate": "10 Mbit/s"},
                              "down": {"rate": rate, "queue": "1 BDP", **direction}}]},
        "flow": [{"name": name, "direction": "down", "congestion": {"name": "fixed", "rate_bit_s": bit_s}}
                 for name, bit_s in flows.items()],
    }  # fmt: skip
    return open_store(bentpipe.run(scenario, out=tmp_path / "store", jobs=1).path)


def _measured(store: Any, measure: str, window: tuple[float, float] | None = None) -> float:
    (value,) = measure_values(store, measure, window)["value"]
    return float(value)


def test_measures_of_constant_rates_are_those_rates(tmp_path: Path) -> None:
    """A sender of 2 Mbit/s beside one of 6 has a quarter of the bytes, and no queue or loss."""
    pytest.importorskip("bentpipe._engine")
    store = _constant_rates(tmp_path, "10 Mbit/s", {"main": 2_000_000, "rival": 6_000_000})
    assert _measured(store, "load_ratio") == pytest.approx(0.25, abs=0.002)
    assert _measured(store, "interval_goodput_bit_s", (2.0, 18.0)) == pytest.approx(2e6, rel=0.03)
    assert _measured(store, "lost_packets") == 0
    # 2 Mbit/s for 100 ms of round trip, and less than two packets.
    assert _measured(store, "in_flight_max_bytes") == pytest.approx(25_000, abs=2 * 1500)
    assert 100 < _measured(store, "rtt_max_ms", (2.0, 18.0)) < 106
    assert _measured(store, "rise_s", (2.0, 18.0)) == pytest.approx(1.0, abs=0.2)


def test_measures_of_an_overload(tmp_path: Path) -> None:
    """A sender of 8 Mbit/s at a link of 4 loses half of its packets; from 10 s on the link has 16 Mbit/s."""
    pytest.importorskip("bentpipe._engine")
    changes = [{"at": "10 s", "rate": "16 Mbit/s"}]
    store = _constant_rates(tmp_path, "4 Mbit/s", {"main": 8_000_000}, changes=changes)
    assert _measured(store, "loss_ratio", (3.0, 9.0)) == pytest.approx(0.5, abs=0.04)
    assert _measured(store, "loss_ratio", (12.0, 19.0)) < 0.01
    # The second before the change has half of the later goodput; a second after it, all of it.
    assert _measured(store, "rise_s", (10.0, 20.0)) == pytest.approx(1.0, abs=0.4)
    assert _measured(store, "rise_s", (8.0, 20.0)) == pytest.approx(3.0, abs=0.4)
    assert _measured(store, "finish_s") == pytest.approx(20.0, abs=0.1)
