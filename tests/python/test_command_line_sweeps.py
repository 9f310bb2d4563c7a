"""Axes and controllers of a scenario from the command line."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import sys
from typing import TYPE_CHECKING

import pytest

import bentpipe
import commands
from bentpipe.runners.user_modules import module_of
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.sweep import parse_sweep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCENARIO = """duration = "1 s"
[[path.segment]]
name = "satellite"
delay = "10 ms"
both = { rate = "1 Mbit/s" }
[[flow]]
name = "main"
congestion = "cubic"
[sweep]
"path.satellite.delay" = ["1 ms", "2 ms", "3 ms"]
"""
CONTROLLER = """
class Held:
    def __init__(self, config):
        self.window = WINDOW * 1200

    def on_event(self, now, event):
        return self.window
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "s.toml").write_text(SCENARIO)
    (tmp_path / "held_of_mine.py").write_text(CONTROLLER.replace("WINDOW", "2"))
    classes = [CONTROLLER.replace("WINDOW", "2").replace("Held", name) for name in ("First", "Second")]
    (tmp_path / "two_of_mine.py").write_text("".join(classes))
    (tmp_path / "broken_of_mine.py").write_text("def (")
    (tmp_path / "lacking_of_mine.py").write_text("import nothing_of_mine")
    (tmp_path / "leaving_of_mine.py").write_text("raise SystemExit(3)")
    (tmp_path / "random.py").write_text("")
    (tmp_path / "a-b.py").write_text("")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in [name for name in sys.modules if name.endswith("_of_mine")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("words", "key", "values"),
    [
        ("flow.main.congestion=cubic,bbr", "flow.main.congestion", ["cubic", "bbr"]),
        ("path.s.delay=20 ms, 300 ms", "path.s.delay", ["20 ms", "300 ms"]),
        ("flow.main.count=1,2", "flow.main.count", [1, 2]),
        ('a.b.c=["1 ms", "2 ms"]', "a.b.c", ["1 ms", "2 ms"]),
        ('a.b.c={ name = "cubic", beta = 0.8 },bbr', "a.b.c", [{"name": "cubic", "beta": 0.8}, "bbr"]),
        ('a.b.c="x,y",z', "a.b.c", ["x,y", "z"]),
        ("a.b.c=true", "a.b.c", [True]),
    ],
)
def test_values_of_an_axis(words: str, key: str, values: list[object]) -> None:
    assert parse_sweep(words) == (f"sweep.{key}", values)


@pytest.mark.parametrize("words", ["flow.main.congestion", "flow.main.congestion=", "=a,b"])
def test_an_axis_without_values(words: str) -> None:
    with pytest.raises(ScenarioError, match=r"--sweep: found"):
        parse_sweep(words)


def test_an_axis_is_new_or_in_the_place_of_one(place: Path) -> None:
    words = ["--sweep", "flow.main.congestion=cubic,bbr", "--sweep", "path.satellite.delay=7 ms,9 ms"]
    message = json.loads(commands.bentpipe(place, "check", "s.toml", "--json", *words).stdout)
    assert message["cells"] == 4
    least = {round(one["min_rtt_ms"]) for one in message["bounds"]}
    assert min(least) >= 14, "the scenario's own delays, of 3 ms at most, are gone"
    done = commands.bentpipe(place, "check", "s.toml", "--sweep", "flow.main.congestion=cubic,brr")
    assert done.returncode == 2
    assert 's.toml: flow.main.congestion: no controller "brr"' in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("mine", 'found "mine", expected [NAME=]FILE.py:CLASS such as "mine=cc.py:Mine"'),
        ("mine=held_of_mine", 'found "mine=held_of_mine", expected [NAME=]FILE.py:CLASS'),
        (
            "mine=cubik",
            'found "mine=cubik", expected [NAME=]FILE.py:CLASS such as "mine=cc.py:Mine"; did you mean "mine=cubic"?',
        ),
        ("mine=cubic --controller mine=bbr", 'duplicate name "mine"'),
        ("bbr=cubic", '"bbr" is a built-in name, expected another name'),
        ("=held_of_mine.py", 'found "=held_of_mine.py", expected [NAME=]FILE.py:CLASS'),
        ("cubic=held_of_mine.py:Held", '"cubic" is a built-in name, expected another name'),
        ("mine=held_of_mime.py:Held", 'no file "held_of_mime.py"; did you mean "held_of_mine.py"?'),
        (
            "mine=held_of_mine.py:Hold",
            'held_of_mine.py: no controller class "Hold", expected one of: Held; did you mean "Held"?',
        ),
        ("mine=broken_of_mine.py:Held", "broken_of_mine.py cannot be imported: SyntaxError: "),
        (
            "mine=lacking_of_mine.py:Held",
            "lacking_of_mine.py cannot be imported: ModuleNotFoundError: No module named 'nothing_of_mine' (",
        ),
        ("mine=leaving_of_mine.py:Held", "leaving_of_mine.py cannot be imported: SystemExit: 3 ("),
        ("mine=random.py:Held", 'random.py: no class "Held", expected one with a method on_event'),
        ("a-b.py", "a-b.py: no controller class, expected one with a method on_event"),
        (
            "two_of_mine.py",
            'two_of_mine.py: has 2 controller classes, expected "two_of_mine.py:First" or "two_of_mine.py:Second"',
        ),
        ("mine=held_of_mine.py:Held --controller mine=held_of_mine.py:Held", 'duplicate name "mine"'),
        (
            "mine=held_of_mine.py:Held --engine emu",
            "cannot be combined with --engine emu, which supports only built-in controllers",
        ),
        (
            "mine=held_of_mine.py:Held --cluster dask://127.0.0.1:1",
            "cannot be combined with --cluster, whose workers lack its file",
        ),
    ],
)
def test_a_controller_that_cannot_be_had(place: Path, words: str, message: str) -> None:
    done = commands.bentpipe(place, "run", "s.toml", "--controller", *shlex.split(words))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --controller: {message}"), done.stderr
    assert done.stderr.count("\n") == 1
    assert not (place / "out").exists()


def test_a_controller_of_ones_own_runs_and_is_known_again(place: Path) -> None:
    """The upper bound is the window in each round trip of 80 ms. The lower bound is a third of that. A run has 12 round
    trips, with one for the handshake, packets of 10 ms and late acknowledgements. Another window makes new runs, of
    another controller, also where its file is as long and as old as before."""
    pytest.importorskip("bentpipe._engine")
    (place / "random.py").unlink()  # workers search the folder they are started in
    words = ["s.toml", "--controller", "mine=held_of_mine.py:Held", "--set", "flow.main.congestion=mine"]
    words += ["--sweep", "path.satellite.delay=40 ms"]
    ids = []
    for window in (2, 3):
        (place / "held_of_mine.py").write_text(CONTROLLER.replace("WINDOW", str(window)))
        os.utime(place / "held_of_mine.py", (1e9, 1e9))
        store = f"store-{window}"
        done = commands.process(place, "run", *words, "--jobs", "1", "--out", store, "--json")
        assert json.loads(done.stdout)["done"] == 1, done.stderr
        rows = json.loads(commands.bentpipe(place, "show", store, "--json").stdout)
        (goodput,) = [row["mean"] for row in rows if row["metric"] == "goodput_bit_s"]
        most = window * 1200 * 8 / 0.08
        assert most / 3 < goodput < most
        ids += [run["id"] for run in json.loads((place / store / "plan.json").read_text())["runs"]]
    assert len(set(ids)) == 2


def test_a_module_of_ones_own_is_imported_as_any(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once; under its package's name; and nothing is left of one that cannot be carried out."""
    (place / "pack_of_mine").mkdir()
    (place / "pack_of_mine" / "__init__.py").write_text("")
    (place / "pack_of_mine" / "part_of_mine.py").write_text("KEPT = []")
    monkeypatch.syspath_prepend(place)
    found = module_of("pack_of_mine.part_of_mine")
    assert module_of("pack_of_mine.part_of_mine") is found
    assert importlib.import_module("pack_of_mine").part_of_mine is found
    assert found.__file__ == str(place / "pack_of_mine" / "part_of_mine.py")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_mine"):
        module_of("lacking_of_mine")
    with pytest.raises(ModuleNotFoundError, match="nowhere_of_mine"):
        module_of("nowhere_of_mine")
    assert not {"lacking_of_mine", "nowhere_of_mine"} & set(sys.modules)


def test_check_knows_a_controller_of_ones_own(place: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    (place / "random.py").unlink()
    words = ["s.toml", "--set", "flow.main.congestion=mine"]
    done = commands.bentpipe(place, "check", *words)
    assert done.returncode == 2
    assert '"mine"' in done.stderr
    assert "expected one of: newreno" in done.stderr
    done = commands.bentpipe(place, "check", *words, "--controller", "mine=held_of_mine.py:Held")
    assert done.returncode == 0, done.stderr
    assert "3 cells, 3 runs" in done.stdout
    done = commands.bentpipe(place, "check", *words, "--controller", "mine=held_of_mine.py:Hold")
    assert done.returncode == 2
    assert 'did you mean "Held"?' in done.stderr


LOCATIONS = [
    ("held_of_mime.py:Held", 'no file "held_of_mime.py"; did you mean "held_of_mine.py"?'),
    (
        "held_of_mine.py:Hold",
        'held_of_mine.py: no controller class "Hold", expected one of: Held; did you mean "Held"?',
    ),
    ("two_of_mine.py", 'two_of_mine.py: has 2 controller classes, expected "two_of_mine.py:First" or '),
    ("leaving_of_mine.py", "leaving_of_mine.py cannot be imported: SystemExit: 3 ("),
    ("random.py", "random.py: no controller class, expected one with a method on_event"),
]


@pytest.mark.parametrize(("location", "message"), LOCATIONS)
def test_every_place_says_the_same_of_a_location(
    place: Path, monkeypatch: pytest.MonkeyPatch, location: str, message: str
) -> None:
    monkeypatch.chdir(place)
    in_scenario = ["--set", f"flow.main.congestion={location}"]
    commands_and_keys = [
        (["run", "s.toml", "--controller", location], "--controller"),
        (["check", "s.toml", "--controller", f"mine={location}"], "--controller"),
        (["run", "s.toml", *in_scenario], "s.toml: flow.main.congestion"),
        (["check", "s.toml", *in_scenario], "s.toml: flow.main.congestion"),
        (["check-controller", location], "check-controller"),
    ]
    for words, key in commands_and_keys:
        done = commands.bentpipe(place, *words)
        assert done.returncode == 2, words
        assert done.stderr.startswith(f"error: {key}: {message}"), (words, done.stderr)
    for call in (bentpipe.run, bentpipe.check):
        with pytest.raises(ScenarioError) as error:
            call("s.toml", controllers={"mine": location})
        assert str(error.value).startswith(f"controllers.mine: {message}")
    assert not (place / "out").exists()


def _windows(place: Path, *words: str) -> dict[str, float]:
    """Goodput by controller, in windows of one packet a round trip of 80 ms."""
    rows = json.loads(commands.bentpipe(place, "show", *words, "--json").stdout)
    one = 1200 * 8 / 0.08
    return {
        row["flow.main.congestion"]: row["mean"] / one for row in rows if row["metric"] == "goodput_bit_s"
    }


def test_a_scenario_names_files_of_controllers(place: Path) -> None:
    """Two files of one name in two folders are two controllers, and the ids follow their sources."""
    (place / "random.py").unlink()
    for folder, window in (("old", "2"), ("new", "4")):
        (place / folder).mkdir()
        (place / folder / "cc.py").write_text(CONTROLLER.replace("WINDOW", window))
    words = [
        "--sweep",
        "flow.main.congestion=old/cc.py:Held,new/cc.py",
        "--sweep",
        "path.satellite.delay=40 ms",
    ]
    done = commands.bentpipe(place, "run", "s.toml", *words, "--jobs", "1", "--out", "both")
    assert done.returncode == 0, done.stderr
    found = _windows(place, "both")
    assert 0.6 < found["old/cc.py:Held"] < 2
    assert 1.2 < found["new/cc.py"] < 4
    assert found["new/cc.py"] > 1.5 * found["old/cc.py:Held"]
    runs = {
        run["cell"]["flow.main.congestion"]: run["id"]
        for run in json.loads((place / "both" / "plan.json").read_text())["runs"]
    }
    export = ["export", "both", "-f", "pcapng", "--run", runs["new/cc.py"], "-o", "here"]
    done = commands.bentpipe(place, *export)
    assert done.stderr.endswith("expected also --controller new/cc.py\n")
    done = commands.bentpipe(place, *export, "--controller", "new/cc.py")
    assert done.returncode == 0, done.stderr
    assert (place / "here" / f"{runs['new/cc.py']}.main.new_cc.py.client.pcapng").stat().st_size > 1000
    (place / "new" / "cc.py").write_text(CONTROLLER.replace("WINDOW", "5"))
    done = commands.bentpipe(place, "run", "s.toml", *words, "--jobs", "1", "--out", "both")
    assert done.returncode == 2
    assert "both" in done.stderr


def test_python_names_files_of_controllers(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (place / "random.py").unlink()
    text = {"flow.main.congestion": "two_of_mine.py:Second", "sweep.path.satellite.delay": ["40 ms"]}
    by_scenario = bentpipe.run("s.toml", settings=text, jobs=1)
    text["flow.main.congestion"] = "mine"
    by_name = bentpipe.run("s.toml", {"mine": "two_of_mine.py:Second"}, settings=text, jobs=1)
    names = ("run", "congestion")
    assert by_scenario.flow_summary.drop(names).equals(by_name.flow_summary.drop(names))
    with pytest.raises(ValueError, match=r"controllers.cubic.*built-in name"):
        bentpipe.run("s.toml", {"cubic": "two_of_mine.py:Second"})
    with pytest.raises(ValueError, match="must be in modules that its workers can import, not in files"):
        bentpipe.run("s.toml", {"mine": "two_of_mine.py:Second"}, settings=text, cluster="dask://127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--engine emu",
            's.toml: flow.main.congestion: found "held_of_mine.py", expected a built-in controller',
        ),
        (
            "--cluster dask://127.0.0.1:1",
            "flow.main.congestion: held_of_mine.py cannot be combined with --cluster, whose workers lack its file",
        ),
    ],
)
def test_a_location_stays_on_this_host_in_virtual_time(place: Path, words: str, message: str) -> None:
    setting = ["--set", "flow.main.congestion=held_of_mine.py"]
    done = commands.bentpipe(place, "run", "s.toml", *setting, *words.split())
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}"), done.stderr
    assert not (place / "out").exists()


def test_neighbours_of_two_folders_do_not_mix(place: Path) -> None:
    for folder in ("old", "new"):
        (place / folder).mkdir()
        (place / folder / "windows_of_mine.py").write_text("SIZE = 2")
        text = "from windows_of_mine import SIZE\n" + CONTROLLER.replace("WINDOW", "SIZE")
        (place / folder / "cc.py").write_text(text)
    done = commands.bentpipe(place, "check", "s.toml", "--sweep", "flow.main.congestion=old/cc.py,new/cc.py")
    assert done.returncode == 2
    assert (
        'new/cc.py cannot be imported: ImportError: its module "windows_of_mine" is already ' in done.stderr
    )
    assert done.stderr.rstrip().endswith("old/windows_of_mine.py")


def test_a_name_may_stand_for_a_built_in_controller(place: Path) -> None:
    (place / "random.py").unlink()
    words = ["run", "s.toml", "--sweep", "path.satellite.delay=40 ms", "--jobs", "1"]
    named = ["--sweep", "flow.main.congestion=mine,newreno", "--controller", "mine=bbr"]
    for store, more in (("named", named), ("plain", ["--sweep", "flow.main.congestion=bbr,newreno"])):
        done = commands.bentpipe(place, *words, *more, "--out", store)
        assert done.returncode == 0, done.stderr
    tables = [bentpipe.open_results(place / store).flow_summary for store in ("named", "plain")]
    assert tables[0]["flow.main.congestion"].unique(maintain_order=True).to_list() == ["mine", "newreno"]
    names = ("run", "flow.main.congestion")
    assert tables[0].drop(names).equals(tables[1].drop(names))
