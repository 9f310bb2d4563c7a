"""Presets as files of other tools: the numbers of their sources, and what each format lacks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import realtime
import user_mode
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.preset_export import radio_link
from bentpipe.preset_export.access import load_access
from bentpipe.preset_export.export import render_files, render_text, write_files
from bentpipe.preset_export.formats import FORMATS, describe_limits
from bentpipe.preset_export.intervals import COUNT, draw_intervals
from bentpipe.preset_export.json_document import json_schema
from bentpipe.preset_export.quantiles import mean_quantile, median_sum, quantile
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.presets import BASES, presets
from commands import bentpipe
from test_presets import STATED

NAMES = [preset.name for preset in presets()]


def documents() -> dict[str, Any]:
    return {one["name"]: one for one in json.loads(render_text(NAMES, "json"))["presets"]}


DOCUMENTS = documents()


RADIO = [
    name for name in NAMES if any(DOCUMENTS[name][side]["link_layer"] is not None for side in ("down", "up"))
]


@pytest.fixture(autouse=True)
def _short_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Radio links are simulated for three seconds, not two minutes."""
    monkeypatch.setattr(radio_link, "DURATION_S", 3)


def settings(name: str) -> dict[str, str]:
    """Variables of a script with tc."""
    (script,) = render_files([name], "netem").values()
    found = re.findall(r"^((?:DOWN|UP)_\w+)='?(.*?)'?(?:    #.*)?$", script, re.MULTILINE)
    return dict(found)


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_states_the_basis_of_its_numbers(name: str) -> None:
    preset = load_access(name).preset
    assert preset.basis in BASES
    assert preset.access
    assert all(link.startswith("https://") for link in preset.links)
    assert ("queue" in preset.guesses) == ("guess" in preset.source or "example" in preset.source)


def test_the_document_follows_its_schema_and_has_the_numbers_of_the_sources() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for document in [
        json.loads(render_text(NAMES, "json")),
        *map(json.loads, render_files(NAMES, "json").values()),
    ]:
        jsonschema.validate(document, schema)
    broken = json.loads(render_text(["adsl"], "json"))
    broken["presets"][0]["down"]["rate"] = 1
    with pytest.raises(jsonschema.ValidationError, match="rate"):
        jsonschema.validate(broken, schema)
    for name, (down, up, rtt) in STATED.items():
        found = DOCUMENTS[name]
        rates = [found[side]["rate_bit_s"] for side in ("down", "up")]
        assert (rates[0], rates[1], found["rtt_s"]) == pytest.approx((down * 1e6, up * 1e6, rtt / 1e3))
    konnect = DOCUMENTS["geo-konnect"]["down"]["queue"]
    assert konnect == {"discipline": "drop-tail", "counted_in": "bytes", "bytes": 2_343_750, "packets": 1562}
    assert DOCUMENTS["interop-sat"]["up"]["queue"]["counted_in"] == "packets"
    assert DOCUMENTS["quic4sat-lossy"]["up"]["loss"] == {"model": "bernoulli", "probability": 0.01}
    assert DOCUMENTS["tauran-lms"]["up"]["queue"]["counted_in"] is None
    satcom = DOCUMENTS["satcom-2018"]["segments"]
    assert [segment["delay_down_s"] for segment in satcom] == [0.0005, 0.3595, 0.015]
    starlink = DOCUMENTS["starlink"]["up"]["reconfiguration"]
    assert (starlink["interval_s"], starlink["phase_s"], starlink["delay_s"][-1]) == (15, 12, 0.06)
    assert starlink["loss_bursts"]["probability"] == 0.25


@pytest.mark.parametrize("name", NAMES)
def test_the_document_gives_the_path_again(name: str) -> None:
    flow = {"name": "a", "congestion": "cubic"}
    paths = [{"segment": DOCUMENTS[name]["scenario"]}, {"preset": name}]
    specs = [
        build_plan(load_scenario({"duration": "1 s", "path": path, "flow": [flow]}), "").runs[0].spec["graph"]
        for path in paths
    ]
    assert specs[0] == specs[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_with_tc_has_the_numbers_of_its_preset(name: str) -> None:
    found, document = settings(name), DOCUMENTS[name]
    for side in ("down", "up"):
        direction, prefix = document[side], side.upper()
        if direction["link_layer"] is None:
            assert found[f"{prefix}_RATE"] == f"{direction['rate_bit_s']}bit"
        delay = float(re.search(r"delay ([\d.]+)us", found[f"{prefix}_NETEM"])[1])  # type: ignore[index]
        assert delay / 1e6 == pytest.approx(direction["delay_s"], abs=1e-9)
        queue, qdisc = direction["queue"], found[f"{prefix}_QUEUE"].split()
        if queue["discipline"] == "drop-head":
            assert qdisc == ["pfifo_head_drop", "limit", str(queue["packets"])]
        elif queue["counted_in"]:
            kind = "bfifo" if queue["counted_in"] == "bytes" else "pfifo"
            assert qdisc == [kind, "limit", str(queue[queue["counted_in"]])]
        assert found[f"{prefix}_LIMIT"] == qdisc[2]
        # Packets in propagation never reach the limit of netem, even if all are small.
        assert int(found[f"{prefix}_FLIGHT"]) * 64 * 8 > direction["rate_bit_s"] * direction["delay_s"]


def test_a_radio_link_has_the_rate_of_its_deliveries() -> None:
    assert RADIO == ["nr-ntn-geo", "nr-ntn-leo", "tauran-lms"]
    found = settings("nr-ntn-leo")
    instants = trace("nr-ntn-leo", "down")
    assert instants == sorted(instants)
    assert 2900 < instants[-1] <= 3000
    rate = int(found["DOWN_RATE"].removesuffix("bit"))
    assert rate == pytest.approx(len(instants) * 12_000_000 / instants[-1], abs=1)
    # 10 % of the blocks of 20 Mbit/s are sent twice, 0.1 % of them three times.
    assert rate == pytest.approx(20e6 * (1 - 0.101), rel=0.03)
    assert int(settings("tauran-lms")["DOWN_RATE"].removesuffix("bit")) < 35e6  # 50 Mbit/s are coded bits
    assert settings("tauran-lms")["UP_RATE"] == "50000000bit"  # no radio link
    radio_link._simulate.cache_clear()
    assert trace("nr-ntn-leo", "down") == instants  # the same seed gives the same bytes


def test_losses_of_tc() -> None:
    assert settings("quic4sat-lossy")["DOWN_NETEM"] == "delay 325000us loss random 1%"
    assert settings("geo-konnect")["DOWN_NETEM"] == "delay 375000us"


@pytest.mark.parametrize("name", NAMES)
def test_scripts_are_shell_and_state_source_and_limits(name: str, tmp_path: Path) -> None:
    for format_name in ("netem", "mahimahi"):
        files = render_files([name], format_name)
        write_files(files, tmp_path)
        script = next(iter(files))
        subprocess.run(["sh", "-n", tmp_path / script], check=True)
        comment = re.sub(r"\n#\s+", " ", files[script])
        access = load_access(name)
        assert access.preset.source in comment
        assert all(line in comment for line in describe_limits(access)[format_name])
        assert files == render_files([name], format_name)


def test_a_format_names_what_it_lacks() -> None:
    def lacks(name: str, format_name: str) -> str:
        return "\n".join(DOCUMENTS[name]["limits"][format_name])

    assert lacks("geo-konnect", "netem") == ""
    for word in ("reconfiguration intervals of 15 s", "drop-head", "varies within an interval"):
        assert word in lacks("starlink", "netem")
    assert "no delays of retransmissions" in lacks("nr-ntn-leo", "netem")
    assert "40 ms every 15 s" in lacks("starlink-medians", "netem")
    assert "down: radio link: the packets that it delivered" in lacks("tauran-lms", "mahimahi")
    assert "1.5 ms down and 1.5 ms up: 2 ms" in lacks("ftth", "mahimahi")
    assert "down: changes at fixed times" in lacks("quic4sat-variable", "netem")


def test_a_schedule_changes_rates_at_the_times_of_the_preset() -> None:
    (script,) = render_files(["quic4sat-variable"], "netem").values()
    body = script.split("schedule() {")[1].split("}")[0]
    assert [line.split()[:2] for line in body.strip().splitlines()] == [
        ["devices"],
        ["change_down", "'50000000bit'"],
        ["sleep", "5"],
        ["change_down", "'10000000bit'"],
    ]


def test_a_schedule_of_intervals_lasts_as_long_as_they_do() -> None:
    (script,) = render_files(["starlink"], "netem").values()
    body = script.split("while :; do")[1].split("done")[0]
    sleeps = [float(text) for text in re.findall(r"sleep ([\d.]+)", body)]
    assert sum(sleeps) == pytest.approx(15 * COUNT)
    for side in ("down", "up"):
        lines = re.findall(rf"change_{side} '(\d+)bit' \d+ '(.*)'", body)
        bursts = sum("loss random 100%" in netem for _, netem in lines)
        assert bursts == round(0.25 * COUNT)
        assert len({rate for rate, _ in lines}) == COUNT


def test_drawn_intervals_have_the_distribution_of_the_preset() -> None:
    access = load_access("starlink")
    for side, direction in access.directions.items():
        drawn, table = draw_intervals(direction, side), direction.intervals
        assert table is not None
        rates = [one.rate_bit_s or 0 for one in drawn]
        assert sum(rates) / len(rates) == pytest.approx(mean_quantile(table.rate_bit_s), rel=0.01)
        assert table.rate_bit_s[0] < min(rates) <= quantile(table.rate_bit_s, 1 / COUNT)
        assert quantile(table.rate_bit_s, 1 - 1 / COUNT) <= max(rates) < table.rate_bit_s[-1]
        assert drawn[0].burst_ns == 0
    ranks = [
        sorted(range(COUNT), key=lambda index, drawn=drawn: drawn[index].delay_ns)
        for drawn in (draw_intervals(direction, side) for side, direction in access.directions.items())
    ]
    assert ranks[0] == ranks[1]  # both directions of an interval have the same rank of delay


def test_the_median_of_a_sum() -> None:
    assert median_sum([0, 1], [0, 1]) == pytest.approx(1, abs=1e-3)
    assert median_sum([0, 0, 10], [0, 0, 10]) > 0  # the sum of both medians is 0
    assert median_sum([7], [1]) == 8
    # 42 ms is the median that was measured (tests of the preset).
    assert DOCUMENTS["starlink"]["rtt_s"] == pytest.approx(0.0425, abs=0.001)


def trace(name: str, side: str) -> list[int]:
    return [int(line) for line in render_files([name], "mahimahi")[f"{name}-{side}.mahimahi"].splitlines()]


STEADY = [
    name
    for name in NAMES
    if name not in RADIO
    and not any(
        DOCUMENTS[name][side][key]
        for side in ("down", "up")
        for key in ("rate_changes", "outages", "reconfiguration")
    )
]


@pytest.mark.parametrize("name", STEADY)
def test_a_trace_has_the_rate_of_its_preset_and_is_even(name: str) -> None:
    for side in ("down", "up"):
        instants = trace(name, side)
        bit_s = DOCUMENTS[name][side]["rate_bit_s"]
        assert len(instants) * 1504 * 8000 / instants[-1] == pytest.approx(bit_s, rel=1e-9)
        for number, instant in enumerate(instants, start=1):
            exact = number * 1504 * 8000 / bit_s
            assert exact - 1e-6 <= instant < exact + 1


@pytest.mark.parametrize("name", ["geo-viasat", "ftth", "quic4sat-congested", "starlink", "starlink-medians"])
def test_a_scenario_reads_the_trace_with_the_same_rate(name: str, tmp_path: Path) -> None:
    write_files(render_files([name], "mahimahi"), tmp_path)
    for side in ("down", "up"):
        path = {"segment": [{"name": "s", "both": {"trace": f"{name}-{side}.mahimahi"}}]}
        flow = {"name": "a", "congestion": "cubic"}
        document = load_scenario({"duration": "1 s", "path": path, "flow": [flow]})
        document = replace(document, folder=tmp_path)
        service = build_plan(document, "").runs[0].spec["graph"]["links"][0][side][0]["service"]  # type: ignore[index]
        rate = len(service["opportunities_ns"]) * service["opportunity_bytes"] * 8e9 / service["repeat_ns"]
        direction = DOCUMENTS[name][side]
        expected = direction["rate_bit_s"]
        if direction["reconfiguration"]:
            expected = mean_quantile(direction["reconfiguration"]["rate_bit_s"])
        if direction["outages"]:
            expected *= 1 - 0.04 / 15
        assert rate == pytest.approx(expected, rel=0.01 if direction["reconfiguration"] else 1e-5)


def test_gaps_and_changes_are_in_the_traces() -> None:
    medians = trace("starlink-medians", "down")
    assert medians[0] == 41  # packets wait for the first 40 ms
    assert medians[-1] == 15_000
    variable = trace("quic4sat-variable", "down")
    before = sum(instant <= 5000 for instant in variable)
    assert before * 1504 * 8 / 5 == pytest.approx(50e6, rel=1e-3)
    assert (len(variable) - before) * 1504 * 8 / 120 == pytest.approx(10e6, rel=1e-3)
    assert variable[-1] == 125_000


def test_the_shells_of_mahimahi_stand_in_the_order_of_the_path() -> None:
    words = (
        render_files(["quic4sat-lossy"], "mahimahi")["quic4sat-lossy-mahimahi.sh"].split("exec ")[1].split()
    )
    order = [words.index(word) for word in ("mm-delay", "uplink", "mm-link", "--", "downlink")]
    assert order == sorted(order)
    assert words[words.index("mm-delay") + 1] == "325"
    assert '--downlink-queue-args="bytes=20312500"' in words
    head = render_files(["starlink"], "mahimahi")["starlink-mahimahi.sh"]
    assert "--uplink-queue=drophead" in head
    on_s, off_s = map(float, re.search(r"mm-onoff downlink ([\d.]+) ([\d.]+)", head).groups())  # type: ignore[union-attr]
    assert off_s / (on_s + off_s) == pytest.approx(0.25 * mean_quantile([0.3, 0.4, 0.4, 0.5, 1.2]) / 15)


OWN = """
title = "mine"
[[path.segment]]
name = "dish"
delay = "10 ms"
down = { rate = "5 Mbit/s", queue = "20 packets", jitter = { uniform = "2 ms", reorder = true }, loss = { gilbert_elliott = { good_to_bad = "1 %", bad_to_good = "25 %", loss_bad = "100 %", loss_good = "0 %" } } }
up = { rate = "1 Mbit/s", aqm = { name = "codel", target = "20 ms" }, reorder = { probability = "1 %", delay = "5 ms" } }
"""


def test_a_preset_of_one_s_own_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    found = json.loads(render_text([str(tmp_path / "mine.toml")], "json"))["presets"][0]
    assert found["name"] == "mine"
    assert found["up"]["further"] == ["reorder"]
    assert "up: reorder: not expressed" in found["limits"]["netem"]
    files = render_files([str(tmp_path / "mine.toml")], "netem")
    script = files["mine-netem.sh"]
    assert "DOWN_NETEM='delay 11000us 1000us loss gemodel 1% 25% 100% 0%'" in script
    assert re.search(r"UP_QUEUE='codel limit \d+ target 20000us interval 100000us'", script)


def test_bad_input_is_one_message_and_status_2(tmp_path: Path) -> None:
    export = ("presets", "export")
    for words, message in (
        (
            ("starlonk", "-f", "netem"),
            'NAME: no preset "starlonk", expected one of: .* did you mean "starlink"',
        ),
        (("adsl", "-f", "nettem"), 'netem, mahimahi, json; did you mean "netem"?'),
        (("adsl",), "--format: missing, expected"),
        (("adsl", "ftth", "-f", "netem"), "--out: missing, expected a directory for 2 files"),
        (("adsl", "-f", "mahimahi"), "--out: missing, expected a directory for 3 files"),
        (("mne.toml", "-f", "json"), 'NAME: no file "mne.toml"; did you mean "mine.toml"'),
    ):
        (tmp_path / "mine.toml").write_text(OWN)
        done = bentpipe(tmp_path, *export, *words)
        assert re.fullmatch(f"error: .*{message.replace('?', '[?]')}.*\n", done.stderr), done.stderr
        assert (done.returncode, done.stdout) == (2, "")


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    words = ("presets", "export", "adsl", "--format", "netem", "--out")
    first = bentpipe(tmp_path, *words, "out").stdout
    assert first == "out/adsl-netem.sh\n"
    assert bentpipe(tmp_path, *words, "out").stdout == first  # the same content
    (tmp_path / "out/adsl-netem.sh").write_text("mine")
    done = bentpipe(tmp_path, *words, "out")
    assert done.returncode == 2
    assert done.stderr == (
        "error: --out: out/adsl-netem.sh exists with other content, expected none; choose another directory\n"
    )
    (tmp_path / "file").write_text("")
    assert "--out: file is a file, expected a directory" in bentpipe(tmp_path, *words, "file").stderr
    assert (tmp_path / "out/adsl-netem.sh").read_text() == "mine"


def test_the_command_lists_exports_and_prints_the_schema(tmp_path: Path) -> None:
    listed = json.loads(bentpipe(tmp_path, "presets", "--json").stdout)
    assert [one["name"] for one in listed] == NAMES
    assert json.loads(bentpipe(tmp_path, "presets", "schema").stdout) == json_schema()
    text = bentpipe(tmp_path, "presets", "export", "adsl", "ftth", "--format", "json").stdout
    assert [one["name"] for one in json.loads(text)["presets"]] == ["adsl", "ftth"]
    assert ", ".join(FORMATS) in bentpipe(tmp_path, "presets", "export", "--help").stdout


def test_two_presets_of_one_name_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "adsl.toml").write_text(OWN)
    with pytest.raises(ScenarioError, match='found two presets "adsl", expected one'):
        render_files(["adsl", str(tmp_path / "adsl.toml")], "json")


MOST_LATE_S = 0.001
"""Mean delay of a sleeper above which a measured rate says nothing."""


@pytest.mark.lab
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["geo-viasat", "adsl", "interop-sat"])
def test_the_kernel_s_tc_has_the_rtt_rate_and_queue_of_the_preset(name: str, tmp_path: Path) -> None:
    write_files(render_files([name], "netem"), tmp_path)
    document = DOCUMENTS[name]
    sides = {side: document[side] for side in ("down", "up")}
    waiting = {
        side: one["queue"]["packets"]
        if one["queue"]["counted_in"] == "packets"
        else one["queue"]["bytes"] // 1514
        for side, one in sides.items()
    }
    expected = {
        side: {"packets": round(1.3 * waiting[side]) + 40, "bit_s": one["rate_bit_s"]}
        for side, one in sides.items()
    }
    measure = Path(__file__).with_name("tc_measure.py")
    words = [sys.executable, str(measure), str(tmp_path / f"{name}-netem.sh"), json.dumps(expected)]

    for _ in range(3):
        found = json.loads(user_mode.run(words, tmp_path))
        # A processor that is late makes round trips longer and a stream slower. It never does the opposite.
        assert document["rtt_s"] <= found["rtt_s"][0]
        off: list[object] = [found["rtt_s"]] if found["rtt_s"][0] > document["rtt_s"] + 0.01 else []
        for side, one in sides.items():
            burst, stream = found[side]["burst"], found[side]["stream"]
            share = stream["bit_s"] / (one["rate_bit_s"] * 1500 / 1514)
            assert share < 1.05
            # The queue takes its limit, and what leaves it while the burst comes; the bucket of tbf has some more.
            leaving = burst["sending_s"] * one["rate_bit_s"] / 8 / 1514
            bucket = max(3200, one["rate_bit_s"] / 4000) / 1514 + 1
            assert waiting[side] <= burst["came"] <= waiting[side] + leaving + bucket + 1
            off += [stream] if share < 0.7 else []
            off += [burst] if leaving > waiting[side] else []  # the burst shows little of the queue
        if not off:
            return
    late_s = max(found[side]["stream"]["late_s"] for side in sides)
    if late_s > MOST_LATE_S:
        realtime.give_up(f"a millisecond takes {1e3 * late_s:.1f} ms more")
    pytest.fail(f"late by {1e3 * late_s:.1f} ms only, and yet {off}")
