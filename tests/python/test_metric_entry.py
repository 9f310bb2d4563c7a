"""A metric is one entry of the registry: every consumer has it without another change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ENTRY = """
import sys
from bentpipe.metrics import registry

added = registry.Metric(
    "packet_mean_bytes", "mean packet size", "kB", 1e-3, better=1, definition="sent bytes over sent packets",
    expression="sent_bytes / GREATEST(sent_packets, 1)",
)
registry._ALL = (*registry._ALL, added)
registry.METRICS["packet_mean_bytes"] = added
registry.OVER_SEEDS = (*registry.OVER_SEEDS, "packet_mean_bytes")
from bentpipe.cli import main
sys.argv[0] = "bentpipe"
main()
"""

SCENARIO = """
duration = "3 s"
path = { segment = [{ name = "sky", delay = "20 ms", both = { rate = "5 Mbit/s" } }] }
[[flow]]
name = "bulk"
congestion = "cubic"
load = { bytes = "200 kB" }
"""


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ENTRY, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_entry_is_everywhere(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    run(tmp_path, "run", "s.toml", "--out", "a")
    run(tmp_path, "run", "s.toml", "--out", "b")
    summary = "SELECT sum(sent_bytes) / sum(sent_packets) AS x FROM flow_summary WHERE side = 'client'"
    expected = json.loads(run(tmp_path, "query", "a", summary, "--json"))[0]["x"]
    assert 1000 < expected < 1500
    assert json.loads(
        run(tmp_path, "query", "a", "SELECT packet_mean_bytes AS x FROM metrics", "--json")
    ) == [{"x": expected}]
    assert "mean packet size kB" in run(tmp_path, "show", "a")
    assert "packet_mean_bytes" in run(tmp_path, "diff", "a", "b", "--metric", "packet_mean_bytes", "--json")
    run(tmp_path, "export", "a", "--format", "csv", "--out", "csv")
    assert "packet_mean_bytes" in (tmp_path / "csv/metrics.csv").read_text().splitlines()[0]
    run(tmp_path, "report", "a")
    assert "mean packet size" in (tmp_path / "a/report.html").read_text()
