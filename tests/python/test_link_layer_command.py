"""``bentpipe link-layer``: its scenario, its numbers against physics and other tools, its files and its mistakes."""

from __future__ import annotations

import json
import math
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as draw

import commands
from bentpipe.api.plan import plan_scenario
from bentpipe.link_layer import find_access, parse_config, plan_comparison, resolve_access
from bentpipe.link_layer.config import PLAYOUT, TRAFFIC, LinkLayerConfig
from bentpipe.link_layer.figures import draw_comparison
from bentpipe.link_layer.headline import headline_text, supporting_text
from bentpipe.link_layer.page import scenario_text
from bentpipe.link_layer.results import Comparison, Measurement, compare_settings, table_rows
from bentpipe.link_layer.summary import describe_path
from bentpipe.metrics.call_quality.playout import ADAPTIVE, deadlines
from bentpipe.metrics.packets import packet_metrics
from bentpipe.plan.analysis.lint import lint_plan
from bentpipe.scenario.presets import presets

pytest.importorskip("bentpipe._engine")

RADIO_PRESETS = ("nr-ntn-geo", "nr-ntn-leo", "tauran-lms")
DELAY_MS = 12.885
"""One-way propagation delay of nr-ntn-leo."""

ERRORS = 0.1, 0.01
"""Block error rates of its first and second attempt."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A comparison with short runs, and its JSON."""
    folder = tmp_path_factory.mktemp("comparison")
    words = ["link-layer", "nr-ntn-leo", "--duration", "8 s", "--seeds", "5", "--json"]
    done = commands.bentpipe(folder, *words)
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return folder, data


def _means(found: tuple[Path, dict[str, Any]], metric: str) -> dict[tuple[str, str], dict[str, float]]:
    rows = found[1]["means"]
    return {(row["traffic"], row["setting"]): row[metric] for row in rows if row.get(metric) is not None}


def test_goodput_is_at_most_that_of_the_decoded_blocks(found: tuple[Path, dict[str, Any]]) -> None:
    """With C = 1 + 26 slots, N processes use min(1, N / C) of them (docs/explanation/link-layer.md)."""
    goodput = _means(found, "goodput_bit_s")
    assert {traffic for traffic, _ in goodput} == {"TCP", "QUIC"}
    for (traffic, setting), value in goodput.items():
        share = 16 / 27 if "HARQ 16" in setting else 1.0
        decoded = 1.0 if setting == "RLC UM alone" else 1 - ERRORS[0]
        # the last seed's packets arrive in the order of the draws: five seeds of 8,000 blocks differ by less than 1 %
        assert 0 < value["mean"] <= 20e6 * share * decoded * 1.01, (traffic, setting)


def test_delay_is_at_least_the_propagation_and_a_block(found: tuple[Path, dict[str, Any]]) -> None:
    delay = _means(found, "delay_p95_ms")
    assert {traffic for traffic, _ in delay} == set(TRAFFIC)
    for where, value in delay.items():
        assert value["mean"] >= DELAY_MS + 1, where
    # More than 5 % of the blocks fail at first, so the quantile of a call has one round trip of HARQ more.
    without, with_harq = delay["call", "RLC UM alone"], delay["call", "HARQ 32 + RLC AM"]
    assert with_harq["mean"] - without["mean"] == pytest.approx(27, abs=0.5)


def test_residual_loss_is_that_of_the_blocks(found: tuple[Path, dict[str, Any]]) -> None:
    """A packet of a call is in one block: without retransmission p of them are lost, with one p^2."""
    loss = _means(found, "residual_loss_ratio")
    packets = 5 * 400
    for attempts, setting in ((1, "RLC UM alone"), (2, "HARQ 32 (1 retransmission) + RLC UM")):
        expected = math.prod(ERRORS[:attempts])
        error = math.sqrt(expected * (1 - expected) / packets)
        assert abs(loss["call", setting]["mean"] - expected) <= 5 * error
    for (traffic, setting), value in loss.items():
        assert 0 <= value["mean"] <= 1
        if "RLC AM" in setting:
            assert value["mean"] == 0, (traffic, setting)


def test_opinion_is_a_score(found: tuple[Path, dict[str, Any]]) -> None:
    scores = _means(found, "mos")
    assert [traffic for traffic, _ in scores] == ["call"] * 7
    assert all(1 <= value["low"] <= value["mean"] <= 4.5 for value in scores.values())


def test_means_are_those_of_show_and_calls(found: tuple[Path, dict[str, Any]]) -> None:
    """The same store by other commands: goodput by SQL over the metrics, MOS by the ratings of calls."""
    folder, data = found
    store = str(folder / "out/link-layer-nr-ntn-leo/store")
    query = "SELECT traffic, setting, avg(goodput_bit_s) AS mean FROM metrics WHERE direction = 'down' GROUP BY ALL"
    done = commands.bentpipe(folder, "query", store, query, "--json")
    assert done.returncode == 0, done.stderr
    by_sql = {(row["traffic"], row["setting"]): row["mean"] for row in json.loads(done.stdout)}
    for where, value in _means(found, "goodput_bit_s").items():
        assert value["mean"] == pytest.approx(by_sql[where], rel=1e-9)
    done = commands.bentpipe(folder, "calls", store, "--playout", "p99", "--json")
    rated = [row for row in json.loads(done.stdout) if row["direction"] == "down"]
    for metric in ("mos", "late_ratio", "mouth_to_ear_ms"):
        for (_, setting), value in _means(found, metric).items():
            scores = [row[metric] for row in rated if setting in row.values()]
            assert len(scores) == 5
            assert value["mean"] == pytest.approx(sum(scores) / 5, rel=1e-9)
    assert data["playout"] == "p99"
    assert data["baseline"] == "HARQ 32 + RLC AM"


def test_a_change_is_the_geometric_mean_of_paired_ratios(found: tuple[Path, dict[str, Any]]) -> None:
    folder, data = found
    store = str(folder / "out/link-layer-nr-ntn-leo/store")
    query = "SELECT traffic, setting, seed, goodput_bit_s AS value FROM metrics WHERE direction = 'down'"
    rows = json.loads(commands.bentpipe(folder, "query", store, query, "--json").stdout)
    values = {(row["traffic"], row["setting"], row["seed"]): row["value"] for row in rows}
    checked = 0
    for change in data["changes"]:
        if change["metric"] != "goodput_bit_s":
            continue
        cell = change["cell"]
        logs = [
            math.log(
                values[cell["traffic"], cell["setting"], seed]
                / values[cell["traffic"], data["baseline"], seed]
            )
            for seed in range(1, 6)
        ]
        assert change["effect"] == pytest.approx(math.exp(sum(logs) / 5), rel=1e-5)
        assert (change["seeds"], change["family"]) == (5, "primary")
        checked += 1
    assert checked == 12
    # QUIC declares packets lost that overtake each other by more than three (RFC 9002 section 6.1.1).
    worse = next(
        change
        for change in data["changes"]
        if change["cell"] == {"traffic": "QUIC", "setting": "HARQ 32 + RLC AM out of order"}
        and change["metric"] == "goodput_bit_s"
    )
    assert worse["verdict"] == "regression"


def test_a_second_command_computes_nothing_and_says_the_same(found: tuple[Path, dict[str, Any]]) -> None:
    folder, data = found
    words = ["link-layer", "nr-ntn-leo", "--duration", "8 s"]
    done = commands.bentpipe(folder, *words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == data["answer"]
    assert lines[-1].startswith("0 runs in 0 s, 105 from earlier runs. Page: out/link-layer-nr-ntn-leo/")
    for title in ("TCP download", "QUIC download", "Call (play-out p99)"):
        assert title in lines
    for note in (
        "Residual loss is per offered packet; ",
        "MOS, late loss and mouth-to-ear delay depend on the play-out",
    ):
        assert any(line.startswith(note) for line in lines)
    if any("?" in line.split("improvement")[0] for line in lines[2:] if "±" in line or "[0," in line):
        assert "?: too few seeds, the interval exceeds the mean." in lines
    other = commands.bentpipe(folder, *words[:2], "--duration", "9 s")
    assert other.returncode == 2
    assert (
        "out/link-layer-nr-ntn-leo/store holds the runs of another scenario: duration is 8 s there and 9 s now;"
        in (other.stderr)
    )


def test_the_columns_of_calls_are_the_labels(found: tuple[Path, dict[str, Any]]) -> None:
    """A label stands for the fourteen keys of its setting, in every table."""
    store = str(found[0] / "out/link-layer-nr-ntn-leo/store")
    for command in ("calls", "show"):
        lines = commands.bentpipe(found[0], command, store).stdout.splitlines()
        assert lines[1].split()[:2] == ["traffic", "setting"]
        assert not {"processes", "in_order", "codec", "time"} & set(lines[1].split())
        assert max(map(len, lines[1:])) < 250


def test_other_values_of_the_path_have_their_own_folder(tmp_path: Path) -> None:
    """Title, caption, data and scenario name them; the numbers of the path are those of the resolved plan."""
    words = ["link-layer", "--duration", "1 s", "--seeds", "1", "--setting", "RLC AM alone", "--json"]
    done = commands.bentpipe(
        tmp_path, *words, "--set", "path.ntn.delay=4 ms", "--block-error-rate", "30 %,3 %"
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (
        data["path"] == "20 Mbit/s down, 5 Mbit/s up, round trip 8 ms; block error rate by attempt 30 %, 3 %"
    )
    assert data["overrides"][0] == "path.ntn.delay=4 ms"
    (folder,) = (tmp_path / "out").iterdir()
    assert folder.name.startswith("link-layer-nr-ntn-leo-")
    page = (folder / "link-layer.html").read_text().replace("\u00a0", " ")
    assert "25.77" not in page
    for text in (page, (folder / "scenario.toml").read_text(), data["title"]):
        assert "nr-ntn-leo with path.ntn.delay = " in text
    done = commands.bentpipe(tmp_path, *words, "--set", "path.ntn.delay=4ms")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/link-layer-nr-ntn-leo-ntn.delay=4ms").is_dir()


def test_a_channel_under_block_error_rates_gives_a_warning(tmp_path: Path) -> None:
    channel = 'path.ntn.down.channel={model="white-noise",snr="3 dB"}'
    done = commands.bentpipe(
        tmp_path,
        "link-layer",
        "--duration",
        "1 s",
        "--seeds",
        "1",
        "--setting",
        "RLC AM alone",
        "--set",
        channel,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        "warning: path.ntn.down.channel: no effect: path.ntn.down.nr.block_error_rate determines the errors; "
        "remove one of them\n"
    )


def test_keys_of_both_directions_are_those_of_each(tmp_path: Path) -> None:
    """The scenario of docs/how-to/link-layer.md, with another SNR: a setting of one direction keeps the other keys."""
    page = (Path(__file__).resolve().parents[2] / "docs/how-to/link-layer.md").read_text()
    (tmp_path / "leo.toml").write_text(page.split("```toml title=leo.toml\n")[1].split("```")[0])
    access, remaining = resolve_access(
        str(tmp_path / "leo.toml"), ["duration=2 s"], snr="5dB", elevation="60 deg"
    )
    assert remaining == ("duration=2 s",)
    assert [radio.channel["snr"] for radio in access.radios if radio.channel] == ["5dB", "5dB"]
    plan = plan_comparison(parse_config(access, settings=remaining))
    assert {radio.table["code_rate"] for radio in access.radios} == {"1/2"}
    assert len(plan.cells) == 21
    assert "round trip 8 ms; channel p681 (environment rural-wooded, elevation 60 deg" in describe_path(
        parse_config(access), plan
    )


@given(draw.floats(0.002, 0.3), draw.integers(0, 2**32 - 1))
def test_more_errors_of_a_radio_never_raise_the_score_by_much(share: float, seed: int) -> None:
    """With p99, a share of datagrams with a retransmission of 27 ms costs at most its lateness and its delay.

    The adaptive rule loses all retransmitted datagrams up to a share of 1/8, and none above it.
    """
    delays = 20 + 27 * (np.random.default_rng(seed).random(4000) < share)
    late = float(np.mean(delays >= np.sort(delays)[math.ceil(0.99 * len(delays)) - 1] + 1))
    frame = _delays(delays)
    limit = deadlines(PLAYOUT, frame[0], frame[1])["deadline_ms"][0]
    assert float(np.mean(delays >= limit)) == late <= 0.01
    adaptive = float(np.mean(delays >= deadlines(ADAPTIVE, frame[0], frame[1])["deadline_ms"][0]))
    actual = float(np.mean(delays > 20))
    if abs(actual - 1 / 8) > 0.02:
        assert adaptive == (0 if actual > 1 / 8 else actual)


def _delays(delays: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
    values, counts = np.unique(delays, return_counts=True)
    keys = {"run": "r", "flow": "f", "direction": "down"}
    calls = pl.DataFrame(
        {key: [value] for key, value in keys.items()} | {"delay_min_ms": [float(min(values))]}
    )
    rows = pl.DataFrame({"delay_ms": values.astype(int), "packets": counts}).with_columns(
        **{key: pl.lit(value) for key, value in keys.items()}, window_s=pl.lit(0.0)
    )
    return calls, rows


def test_its_files_are_page_picture_data_and_a_scenario_that_check_reads(
    found: tuple[Path, dict[str, Any]],
) -> None:
    folder, data = found
    out = folder / "out/link-layer-nr-ntn-leo"
    assert {path.name for path in out.iterdir()} == {
        "link-layer.html", "link-layer.json", "link-layer.pdf", "link-layer.svg", "scenario.toml", "store",
    }  # fmt: skip
    assert json.loads((out / "link-layer.json").read_text()) == data
    page = (out / "link-layer.html").read_text()
    assert data["answer"].replace(" ", "") in page.replace("\u00a0", "").replace(" ", "")
    picture = (out / "link-layer.svg").read_text()
    for text in ("RLC UM alone", "mean opinion score", "one-way delay, p95, ms", "residual loss, %"):
        assert text in picture
    done = commands.bentpipe(out, "check", "scenario.toml", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout)["runs"] == 105


@pytest.mark.parametrize("name", RADIO_PRESETS)
def test_every_radio_preset_has_settings_that_fit(name: str) -> None:
    config = parse_config(find_access(name))
    plan = plan_comparison(config)
    assert len(plan.cells) == 3 * len(config.settings)
    assert len(plan.runs) == 5 * len(plan.cells)
    assert lint_plan(plan) == ()
    # The written scenario is the planned one.
    written = tomllib.loads(scenario_text(config))
    assert plan_scenario(written).runs[0].id == plan.runs[0].id
    specs = {json.dumps(run.spec["graph"], sort_keys=True) for run in plan.runs}
    assert len(specs) == len(config.settings), "every setting changes the path"


def test_other_presets_have_no_radio() -> None:
    radio = []
    for preset in presets():
        try:
            find_access(preset.name)
        except ValueError:
            continue
        radio.append(preset.name)
    assert tuple(sorted(radio)) == RADIO_PRESETS


def test_an_access_file_and_its_settings(tmp_path: Path) -> None:
    """A file needs a path only; only its uplink has a radio, so the data goes up."""
    (tmp_path / "mine.toml").write_text(
        '[[path.segment]]\nname = "sky"\ndelay = "20 ms"\ndown = { rate = "9 Mbit/s" }\n'
        'up = { rate = "2 Mbit/s", nr = { block_error_rate = ["5 %"], retransmissions = 2 } }\n'
    )
    access = find_access(str(tmp_path / "mine.toml"), [("path.sky.up.rate", "3 Mbit/s")])
    assert (access.direction, access.kind) == ("up", "nr")
    config = parse_config(
        access,
        only=["RLC AM alone"],
        baseline="HARQ 16 + RLC AM",
        seeds=2,
        size="1 MB",
        settings=["duration=7 s"],
    )
    assert config.labels == ["HARQ 16 + RLC AM", "RLC AM alone"]
    keys = config.settings[0].keys
    assert keys["path.sky.up.nr.retransmissions"] == 2
    plan = plan_comparison(config)
    assert len(plan.cells) == 6
    assert {run.spec["duration_ns"] for run in plan.runs} == {7 * 10**9}


def test_an_access_with_proxies_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        '[[path.segment]]\nname = "sky"\nboth = { rate = "9 Mbit/s", nr = { block_error_rate = ["5 %"] } }\n'
        '[[path.segment]]\nname = "ground"\n[[path.proxy]]\nname = "gateway"\nbetween = ["sky", "ground"]\n'
    )
    done = commands.bentpipe(tmp_path, "link-layer", "mine.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: mine.toml: path.proxy: found proxies, expected none")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nr-ntn-leoo", 'ACCESS: no mobile preset "nr-ntn-leoo", expected one of: nr-ntn-geo, nr-ntn-leo, tauran-lms; did'),
        ("lte-4g", "ACCESS: lte-4g has no direction with nr or link_layer, expected one such as nr-ntn-geo, nr-ntn-leo, "),
        ("--codec g711a", '--codec: no codec "g711a", expected one of: g711, g729, g729a-vad; did you mean "g711"?'),
        ("--duration 0s", '--duration: found "0s", expected a duration above 0'),
        ("--duration 30", '--duration: found "30" without a unit'),
        ("--size 5", '--size: found "5" without a unit'),
        ("--size 0B", '--size: found "0B", expected a size above 0 such as "5 MB"'),
        ("--congestion cubik", '--congestion: no controller "cubik", expected one of: '),
        ("--setting 'RLC AM'", '--setting: no setting "RLC AM", expected one of: HARQ 32 + RLC AM, '),
        ("--baseline RLC", '--baseline: no setting "RLC", expected one of: HARQ 32 + RLC AM, '),
        ("--setting 'HARQ 32 + RLC AM'", '--setting: found the baseline "HARQ 32 + RLC AM" alone, expected another'),
        ("--seeds 0", '--seeds: found "0", expected at least 1'),
        ("--figure nothing", "--figure: requires --figures DIR"),
        ("--playout p0", '--playout: found "p0", expected a percentile above 0 and up to 100 such as "p99"'),
        ("--set path.ntn.down.nr.processes=64", "--set: path.ntn.down.nr.processes has no effect: the compared settings"),
        ("--set path.ntn.nr.in_order=false", "--set: path.ntn.nr.in_order has no effect: the compared settings set it (tr"),
        ("--set flow.main.congestion=bbr", "--set: found flow.main.congestion, which the comparison sets; expected --con"),
        ("--set seeds=9", "--set: found seeds, which the comparison sets; expected --seeds"),
        ("--snr 7dB", '--snr: nr-ntn-leo has no channel with snr: its errors are path.ntn.down.nr.block_error_rate = ["10'),
        ("tauran-lms --snr 7", '--snr: found "7" without a unit, expected a level such as "7 dB"; did you mean "7 dB"?'),
        ("tauran-lms --block-error-rate 5%", "--block-error-rate: tauran-lms has no block_error_rate: path.mobile.down.ch"),
        ("--block-error-rate 30%,x", '--block-error-rate: found "x", expected a percentage'),
        ("""--block-error-rate 5% --set 'path.ntn.nr.block_error_rate=["4 %"]'""", "--set: found path.ntn.down.nr.block_err"),
        ("tauran-lms --set path.mobile.down.link_layer.scheme=code", "path.mobile.down.link_layer.scheme: found"),
    ],
)  # fmt: skip
def test_a_mistake_starts_nothing(tmp_path: Path, words: str, message: str) -> None:
    done = commands.bentpipe(tmp_path, "link-layer", *shlex.split(words))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


class _Packets:
    """Store with the table of packets only."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame

    def rows(self, _name: str, columns: list[str], where: pl.Expr) -> pl.DataFrame:
        return self.frame.filter(where).select("run", *columns)


outcomes = draw.sampled_from(
    ["received", "radio.down: retry_limit", "a.down: loss", "a.down: overflow", "in flight"]
)


@given(draw.lists(draw.tuples(draw.sampled_from(["a", "b"]), outcomes, draw.integers(0, 10**6)), min_size=1))
def test_packet_metrics_against_numpy(packets: list[tuple[str, str, int]]) -> None:
    frame = pl.DataFrame(
        {
            "run": ["r"] * len(packets),
            "from_node": [sender for sender, _, _ in packets],
            "sent_s": [0.25] * len(packets),
            "received_s": [0.25 + delay / 1e6 if end == "received" else None for _, end, delay in packets],
            "dropped": [end if ":" in end else None for _, end, _ in packets],
        },
        schema_overrides={"received_s": pl.Float64, "dropped": pl.String},
    )
    found = packet_metrics(_Packets(frame), "a")  # type: ignore[arg-type]
    mine = [(end, delay) for sender, end, delay in packets if sender == "a"]
    if not mine:
        assert found.height == 0
        return
    delays = [delay / 1e3 for end, delay in mine if end == "received"]
    lost = sum(end in ("radio.down: retry_limit", "a.down: loss") for end, _ in mine)
    (row,) = found.iter_rows(named=True)
    if delays:
        assert row["delay_p95_ms"] == pytest.approx(np.percentile(delays, 95), abs=1e-6)
    else:
        assert row["delay_p95_ms"] is None
    finished = len(delays) + lost
    assert row["residual_loss_ratio"] == (pytest.approx(lost / finished) if finished else None)


def _comparison(seeds: int = 5, size: str | None = None) -> Comparison:
    """A comparison without runs: the second setting doubles every value but that of the call."""
    config: LinkLayerConfig = parse_config(
        find_access("nr-ntn-leo"), only=["RLC AM alone"], seeds=seeds, size=size
    )
    metric = "goodput_bit_s" if size is None else "completion_p50_s"
    measurements = [
        Measurement(label, traffic, {"mos" if traffic == "call" else metric: {1: 4e6}}, {})
        for traffic in TRAFFIC
        for label in config.labels
    ]
    return Comparison(config, tuple(measurements), "test")


def test_a_headline_without_a_test_claims_nothing() -> None:
    text = headline_text(_comparison(1))
    assert text.startswith(
        "TCP has a goodput of 4 Mbit/s with HARQ 32 + RLC AM; a verdict needs 5 seeds. QUIC"
    )
    assert text.endswith(
        "One setting for all three is not resolved with 1 seed: HARQ 32 + RLC AM (100 % of the best TCP, 100 % of the best "
        "QUIC and 100 % of the best call), not separated from RLC AM alone; try --seeds 30."
    )
    assert "one seed gives no confidence interval" in supporting_text(_comparison(1))
    assert "TCP has a median completion of 4000000 s" in headline_text(_comparison(1, "1 MB")).replace(
        ",", ""
    )
    figure = draw_comparison(_comparison(1))
    assert figure.rows == 6
    rows = table_rows(_comparison(1), "call")
    assert [row["setting"] for row in rows] == ["HARQ 32 + RLC AM", "RLC AM alone"]
    assert rows[0]["residual loss %"] is None


def test_few_seeds_have_no_verdict() -> None:
    """Twice the goodput with each of four seeds: a verdict needs five."""
    for seeds, verdict in ((4, "too few seeds"), (5, "improvement")):
        config = _comparison(seeds).config
        baseline, other = config.labels
        values = {
            ("TCP", label): {
                "goodput_bit_s": {seed: factor * (1e6 + seed * offset) for seed in range(1, seeds + 1)}
            }
            for label, factor, offset in ((baseline, 1.0, 1e3), (other, 2.0, 2e3))
        }
        changes = compare_settings(config, values)
        assert {key: change["goodput_bit_s"].verdict for key, change in changes.items()} == {
            ("TCP", other): verdict
        }
        measurements = tuple(
            Measurement(label, traffic, values.get((traffic, label), {}), changes.get((traffic, label), {}))
            for traffic in TRAFFIC
            for label in config.labels
        )
        text = headline_text(Comparison(config, measurements, "test"))
        if seeds < 5:
            assert "a verdict needs 5 seeds. QUIC has no result with HARQ 32 + RLC AM." in text
        else:
            assert text.startswith("TCP has a goodput of 2.0")
            assert f"with {other}; {baseline} gives a goodput of 1.00" in text
