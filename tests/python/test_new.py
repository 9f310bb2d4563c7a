"""``bentpipe new``: every answer gives a scenario that `check` accepts, and a mistake leaves no file."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import commands
from bentpipe.plan.analysis.lint import lint_plan
from bentpipe.scenario import new_scenario
from bentpipe.scenario.new_scenario import NewScenario, parse_loads, parse_rtt, write_scenario
from bentpipe.scenario.package_data import preset_names
from bentpipe.scenario.quantities import Duration, Probability, Rate, Size

pytest.importorskip("bentpipe._engine")

OPTIONS = shlex.split("--down 50Mbit/s --up 5Mbit/s --rtt 600ms --loss 0.1% --load")


@pytest.mark.parametrize("load", ["30 s", "10MB", "page", "call"])
def test_the_three_commands_work_in_their_order(tmp_path: Path, load: str) -> None:
    done = commands.bentpipe(tmp_path, "new", "my path.toml", *OPTIONS, load)
    assert (done.returncode, done.stderr) == (0, "wrote my path.toml; go on with:\n")
    printed = [shlex.split(line) for line in done.stdout.splitlines()]
    assert [words[:2] for words in printed] == [
        ["bentpipe", "check"],
        ["bentpipe", "run"],
        ["bentpipe", "show"],
    ]
    extra = {"run": ["--seeds", "1", "--set", "duration=5 s"]}
    for words in printed:
        done = commands.bentpipe(tmp_path, *words[1:], *extra.get(words[1], []))
        assert done.returncode == 0, done.stderr
        assert done.stderr == "" or words[1] == "run"  # the short run warns about its load


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_gives_a_scenario_without_warnings(tmp_path: Path, preset: str) -> None:
    from bentpipe.api.plan import plan_scenario
    from bentpipe.plan.analysis.lint import lint_plan

    for load in ("30 s", "10MB", "page", "call"):
        done = commands.bentpipe(tmp_path, "new", "--force", "--preset", preset, "--load", load)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / "scenario.toml").read_text()
        assert text.count("\n") <= 25
        data = tomllib.loads(text)
        assert data["path"] == {"preset": preset}
        assert lint_plan(plan_scenario(data)) == ()


rates = st.integers(8_000, 10**9).map(Rate)
rtts = st.integers(1_000_000, 3 * 10**9).map(lambda ns: Duration(ns // 2 * 2))
losses = st.sampled_from([Probability(0.0), Probability.parse("0.01 %"), Probability.parse("5 %")])
loads = st.one_of(
    st.sampled_from(["page", "call"]),
    st.integers(1, 10**8).map(lambda size: f"{size} B"),
    st.integers(10, 600).map(lambda time: f"{time} s"),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(down=rates, up=rates, rtt=rtts, loss=losses, load=loads)
def test_a_written_scenario_says_the_answers(
    down: Rate, up: Rate, rtt: Duration, loss: Probability, load: str
) -> None:
    """It has at most 25 lines, its values are those of the answers, and nothing in it is probably wrong."""
    from bentpipe.api.plan import plan_scenario

    text = write_scenario(NewScenario(parse_loads(load), down, up, rtt, loss))
    assert len(text.splitlines()) <= 25
    assert max(map(len, text.splitlines())) <= 100
    data = tomllib.loads(text)
    (segment,) = data["path"]["segment"]
    assert Rate.parse(segment["down"]["rate"]) == down
    assert Rate.parse(segment["up"]["rate"]) == up
    assert 2 * Duration.parse(segment["delay"]).ns == rtt.ns
    assert Probability.parse(segment["both"]["loss"]) == loss
    (flow,) = data["flow"]
    written = flow["load"]
    if "bytes" in written:
        assert Size.parse(written["bytes"]) == Size.parse(load)
    elif "time" in written:
        assert Duration.parse(written["time"]) == Duration.parse(load) == Duration.parse(data["duration"])
    else:
        assert load in written
    # A call at less than its bit rate, and a page at 8 kbit/s, are valid: only the plan decides.
    assert lint_plan(plan_scenario(data)) == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "--down, --up, --rtt, --load: missing, expected all of them, such as --down 50Mbit/s"),
        ("--down 5Mbit/s --up 5Mbit/s --rtt 1s --loss 0", "--load: missing, expected all of them, such as"),
        ("--down 5 --up 5Mbit/s --rtt 1s --loss 0 --load 1s", '--down: found "5" without a unit, expected a rate'),
        ("--down 5Mbit/s --up 5Mbit/s --rtt 0 --loss 0 --load 1s", '--rtt: found "0", expected a duration above 0'),
        ("--down 5Mbit/s --up 5Mbit/s --rtt 1s --loss 1 --load 1s", '--loss: found "1" without a unit, expected'),
        (
            "--down 5Mbit/s --up 5Mbit/s --rtt 1s --loss 0 --load pge",
            '--load: found "pge", expected a duration such as "30 s", a size such as "10 MB", "page", "call" or "download"; did',
        ),
        (
            "--down 5Mbit/s --up 5Mbit/s --rtt 1s --loss 0 --load 30",
            '--load: found "30", expected a duration such as "30 s", a size such as "10 MB", "page", "call" or "do',
        ),
        (
            "--down=-5 --up 5Mbit/s --rtt 1s --loss 0 --load 3s",
            '--down: found "-5" without a unit, expected a rate above 0 such as "10 Mbit/s"\n',
        ),
        ("--down 5Mbit/s --up 5Mbit/s --rtt 1s --loss 0 --load call --load 3", '--load: found "3", expected a duration'),
        ("--down 5Mbit/s --up 5Mbit/s --rtt 1s --loss 0 --load 0MB", '--load: found "0MB", expected a duration such'),
        ("--down 5Mbit/s --up 5Mbit/s --rtt 1s --loss 0 --load 3bit", '--load: found "3bit", expected a duration'),
        ("nowhere/x.toml --down 5Mbit/s", "FILE: no folder nowhere, expected an existing folder"),
        (". --down 5Mbit/s", "FILE: . is a folder, expected the name of a file to write"),
        ("--preset geo --load 30s", '--preset: no preset "geo", expected one of: adsl,'),
        ("--preset adsl", '--load: missing, expected a load such as "30s", "10MB", page or call'),
        ("--preset adsl --load pge", '--load: found "pge", expected a duration such as "30 s"'),
        ("--preset adsl --rtt 1s --load 30s", "--preset: found --rtt beside it, expected only --load"),
    ],
)  # fmt: skip
def test_a_mistake_leaves_no_file(tmp_path: Path, words: str, message: str) -> None:
    done = commands.bentpipe(tmp_path, "new", *shlex.split(words))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["--load", "call", "--load", "30s"], ["--load", "call and 30s"], ["--load", "call, 30s"]]
)
def test_several_loads_are_flows_beside_each_other(tmp_path: Path, words: list[str]) -> None:
    """The download is swept, because it decides about the call; directions are written."""
    from bentpipe.api.plan import plan_scenario

    done = commands.bentpipe(tmp_path, "new", *OPTIONS[:-1], *words)
    assert done.returncode == 0, done.stderr
    data = tomllib.loads((tmp_path / "scenario.toml").read_text())
    assert data["title"].startswith("Call beside download at 50 Mbit/s down")
    assert [(flow["name"], flow["direction"]) for flow in data["flow"]] == [
        ("call", "both"),
        ("download", "down"),
    ]
    assert list(data["sweep"]) == ["flow.download.congestion"]
    assert data["duration"] == data["flow"][1]["load"]["time"] == "30 s"
    assert lint_plan(plan_scenario(data)) == ()


@pytest.mark.parametrize(
    ("options", "duration"),
    [
        # 4 transfer times of 4 s and 60 RTTs of 0.59 s: 51 s
        ("--down 40Mbit/s --rtt 590ms --load 20MB", "60 s"),
        # 1.22 / sqrt(0.002) = 27.3 packets of 1200 B in 0.59 s: 360 s, three times, and 35 s
        ("--down 40Mbit/s --rtt 590ms --loss 0.2% --load 20MB", "1200 s"),
        # at 10 % loss the window is 3.86 packets: above one hour
        ("--down 40Mbit/s --rtt 590ms --loss 10% --load 20MB", "3600 s"),
        # the rate alone takes 8000 s, without a limit
        ("--down 1Mbit/s --rtt 20ms --load 1GB", "32400 s"),
    ],
)
def test_a_download_of_a_size_has_time_to_finish(tmp_path: Path, options: str, duration: str) -> None:
    done = commands.bentpipe(tmp_path, "new", *shlex.split(options), "--up", "4Mbit/s")
    assert done.returncode == 0, done.stderr
    assert tomllib.loads((tmp_path / "scenario.toml").read_text())["duration"] == duration


@pytest.mark.parametrize(
    ("name", "duration"),
    [
        # 4 transfer times of 16 s at 5 Mbit/s and 60 RTTs of 0.75 s: 109 s
        ("quic4sat-large", "120 s"),
        # at 1 % loss 12.2 packets of 1200 B in 0.75 s: 512 s, three times, and 45 s
        ("quic4sat-lossy", "1800 s"),
    ],
)
def test_the_loss_of_a_preset_lengthens_the_run(tmp_path: Path, name: str, duration: str) -> None:
    done = commands.bentpipe(tmp_path, "new", "--preset", name, "--load", "10MB")
    assert done.returncode == 0, done.stderr
    assert tomllib.loads((tmp_path / "scenario.toml").read_text())["duration"] == duration


def test_the_loss_of_a_preset_is_that_of_all_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = [
        {"both": {"loss": "10 %"}, "down": {"loss": {"probability": "20 %"}}},
        {"down": {"loss": "50 %"}, "up": {"loss": {"gilbert_elliott": {}}}},
        {},
    ]
    monkeypatch.setattr(new_scenario, "preset", lambda _: SimpleNamespace(segments=segments))
    assert new_scenario.preset_loss("any").value == pytest.approx(1 - 0.8 * 0.5)


@pytest.mark.parametrize("loss", ["0.001%", "0.3%", "1%", "50%", "90%"])
def test_the_comment_on_bursts_is_a_loss_with_the_same_mean(loss: str) -> None:
    """The line of the comment without its mark replaces the loss, and the mean of the chain is the loss."""
    from bentpipe.api.plan import plan_scenario

    probability = Probability.parse(loss)
    text = write_scenario(NewScenario(parse_loads("30s"), loss=probability))
    (line,) = [line for line in text.splitlines() if line.startswith("# loss = ")]
    assert "# each packet is lost independently; bursts of 10 packets" in text
    model = tomllib.loads(line.removeprefix("# "))["loss"]["gilbert_elliott"]
    to_bad, to_good = (Probability.parse(model[key]).value for key in ("good_to_bad", "bad_to_good"))
    assert to_bad / (to_bad + to_good) == pytest.approx(probability.value, rel=0.01)
    assert 1 / to_good == pytest.approx(10)
    data = tomllib.loads(text)
    data["path"]["segment"][0]["both"]["loss"] = {"gilbert_elliott": model}
    assert lint_plan(plan_scenario(data)) == ()


@pytest.mark.parametrize("loss", ["0%", "95%", "100%"])
def test_a_loss_without_an_equal_mean_has_no_comment_on_bursts(loss: str) -> None:
    text = write_scenario(NewScenario(parse_loads("30s"), loss=Probability.parse(loss)))
    assert "bursts" not in text


@pytest.mark.parametrize(
    "options", ["--loss 0.2% --rtt 300ms", "--loss 1% --rtt 590ms", "--loss 5% --rtt 100ms"]
)
def test_every_swept_controller_finishes(tmp_path: Path, options: str) -> None:
    from bentpipe.metrics.compute import run_metrics
    from bentpipe.store.reader import open_store

    words = shlex.split(f"--down 40Mbit/s --up 4Mbit/s --load 2MB {options}")
    assert commands.bentpipe(tmp_path, "new", *words).returncode == 0
    assert commands.bentpipe(tmp_path, "run", "scenario.toml").returncode == 0
    metrics = run_metrics(open_store(tmp_path / "out/scenario"))
    assert metrics["finished"].to_list() == [True] * 15
    assert set(metrics["congestion"]) == {"newreno", "cubic", "bbr"}


several = st.lists(loads | st.just("download"), min_size=1, max_size=4)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts=several)
def test_any_loads_beside_each_other_plan_without_warnings(texts: list[str]) -> None:
    from bentpipe.api.plan import plan_scenario

    parsed = parse_loads(texts)
    assert parsed == parse_loads(" and ".join(texts))
    data = tomllib.loads(write_scenario(NewScenario(parsed)))
    names = [flow["name"] for flow in data["flow"]]
    assert len(set(names)) == len(texts)
    assert lint_plan(plan_scenario(data)) == ()


def test_wrong_and_missing_options_are_one_message(tmp_path: Path) -> None:
    done = commands.bentpipe(tmp_path, "new", "--down", "50", "--up", "5Mbit/s", "--rtt", "40ms")
    assert (done.returncode, done.stdout) == (2, "")
    wrong, missing = done.stderr.splitlines()
    assert wrong.startswith('error: --down: found "50" without a unit, expected a rate')
    assert missing.startswith("--load: missing, expected all of them")


def test_loss_is_none_by_default(tmp_path: Path) -> None:
    words = ["--down", "5Mbit/s", "--up", "5Mbit/s", "--rtt", "40ms", "--load", "1s"]
    assert commands.bentpipe(tmp_path, "new", *words).returncode == 0
    assert 'loss = "0 %"' in (tmp_path / "scenario.toml").read_text()


def test_a_file_is_overwritten_only_on_request(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text("mine")
    done = commands.bentpipe(tmp_path, "new", *OPTIONS, "30s")
    assert done.returncode == 2
    assert done.stderr == (
        "error: FILE: scenario.toml exists; choose another name, or overwrite it with --force\n"
    )
    assert file.read_text() == "mine"
    done = commands.bentpipe(tmp_path, "new", "--force", *OPTIONS, "30s")
    assert (done.returncode, done.stderr) == (0, "overwrote scenario.toml; go on with:\n")
    assert tomllib.loads(file.read_text())["duration"] == "30 s"


def _converse(folder: Path, answers: str) -> tuple[int, str, str]:
    """Return status, standard output and the text of the terminal of `new` with these answers."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "bentpipe.cli", "new"]
    with subprocess.Popen(
        command, cwd=folder, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True
    ) as process:
        os.close(theirs)
        os.write(ours, answers.encode())
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # the process closed its side
            pass
        assert process.stdout is not None
        printed = process.stdout.read()
        status = process.wait(timeout=60)
    os.close(ours)
    return status, printed, shown.decode().replace("\r\n", "\n")


def test_a_terminal_is_asked_again_after_a_mistake(tmp_path: Path) -> None:
    status, printed, shown = _converse(tmp_path, "50\n50 Mbit/s\n5 Mbit/s\n600 ms\n0\nweb\npage\n")
    assert status == 0
    assert shown.count("Rate from server to client") == 2
    assert (
        'error: found "50" without a unit, expected a rate above 0 such as "10 Mbit/s"; did you mean' in shown
    )
    assert shown.count("Load (") == 2
    assert printed.splitlines()[0] == "bentpipe check scenario.toml"
    data = tomllib.loads((tmp_path / "scenario.toml").read_text())
    assert data["path"]["segment"][0]["down"] == {"rate": "50 Mbit/s"}
    assert "seeds" not in data  # without loss nothing is random


def test_an_end_of_the_answers_leaves_no_file(tmp_path: Path) -> None:
    status, printed, shown = _converse(tmp_path, "50 Mbit/s\n\x04")
    assert (status, printed) == (2, "")
    assert shown.endswith("error: no more answers; give --down, --up, --rtt, --loss and --load instead\n")
    assert list(tmp_path.iterdir()) == []


def test_a_round_trip_time_is_above_zero() -> None:
    with pytest.raises(ValueError, match="above 0"):
        parse_rtt("0 ms")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("init", '"new" writes a scenario'),
        ("list", '"examples" lists example scenarios, "presets" lists access networks'),
        ("brief", '"report --brief" writes the brief of a store'),
        ("ls", '"examples" lists example scenarios, "presets" lists access networks'),
    ],
)
def test_words_of_other_programs_lead_to_the_command(tmp_path: Path, word: str, hint: str) -> None:
    done = commands.bentpipe(tmp_path, word)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f'error: no command "{word}"; {hint}; see bentpipe --help\n'
    within = commands.bentpipe(tmp_path, "dtn", word)
    assert within.stderr.startswith(f'error: no command "{word}", expected one of: plan, ')
