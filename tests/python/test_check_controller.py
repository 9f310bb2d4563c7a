"""``bentpipe check-controller`` on built-in controllers: the rows of published cases."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from commands import bentpipe

if TYPE_CHECKING:
    from pathlib import Path


def test_a_published_case_has_its_source_and_a_row_for_each_rtt(tmp_path: Path) -> None:
    rows = json.loads(bentpipe(tmp_path, "check-controller", "bbr", "--json").stdout)
    by_name = {row["name"]: row for row in rows}
    case = by_name["bbr-case-16"]
    assert case["source"] == "draft-ietf-ccwg-bbr-06, test case 16"
    assert [part["label"] for part in case["parts"]] == ["20 ms", "100 ms", "600 ms"]
    assert [part["passed"] for part in case["parts"]] == [True, True, False]
    assert "ProbeRTT" in case["exemption"]
    assert sum(row["name"].startswith("bbr-case-") for row in rows) == 22
    assert by_name["minimum-window"]["parts"] == []


def test_the_table_excuses_only_the_failed_part(tmp_path: Path) -> None:
    done = bentpipe(tmp_path, "check-controller", "bbr3")
    assert done.returncode == 0
    lines = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert "exempt" in lines["bbr-case-16 600 ms"]
    assert "exempt" not in lines["bbr-case-16 100 ms"]
    assert "max_bw 1.0000 of the rate after 2 cycles, required 2" in lines["bbr-case-16 100 ms"]


@pytest.mark.parametrize(
    ("controller", "case"), [("cubic", "cubic-rounds-one-loss"), ("hybla", "hybla-packets 600 ms")]
)
def test_other_controllers_have_cases(tmp_path: Path, controller: str, case: str) -> None:
    done = bentpipe(tmp_path, "check-controller", controller)
    assert (done.returncode, case in done.stdout) == (0, True)


def test_other_options_excuse_a_published_case(tmp_path: Path) -> None:
    words = ("check-controller", "cubic", "--option", "beta=0.8", "--json")
    done = bentpipe(tmp_path, *words)
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 0
    assert rows["cubic-rounds-one-loss"]["exemption"] == "the source is for the default options"
