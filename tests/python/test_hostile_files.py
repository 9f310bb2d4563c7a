"""Stores and files of strangers: links, pipes, devices and depth are one line and status 2; nothing waits or grows."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

import bentpipe
import store_damage
from bentpipe.scenario import input_file
from bentpipe.scenario.input_file import InputFileError, parse_json, parse_toml, read_input
from hostile_inputs import HARMS, SMALL, command, in_time, pipe, refused
from store_edit import change_plan

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "small.toml").write_text(SMALL)
    bentpipe.run(folder / "small.toml", jobs=1, out=folder / "store")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


RUN_FILES = ("SHA256SUMS", "spec.json", "flow_summary.parquet")


@pytest.mark.parametrize("harm", HARMS)
def test_a_plan_that_is_no_file_is_one_line_and_run_mends_it(folder: Path, made: Path, harm: str) -> None:
    HARMS[harm](folder / "store" / "plan.json")
    for words in (("show", "store"), ("query", "store", "FROM runs"), ("export", "store", "-f", "csv")):
        refused(command(folder, *words), "plan.json cannot be read: it is ")
    done = command(folder, "run", "small.toml", "--jobs", "1", "--out", "store")
    assert done.returncode == 0, done.stderr
    assert "1 of 1 runs in store (1 from earlier runs)" in done.stdout
    assert store_damage.contents(folder / "store") == store_damage.contents(made / "store")


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, '{"a":' * 900 + "1" + "}" * 900])
def test_deep_json_is_no_fault_and_run_mends_it(folder: Path, made: Path, text: str) -> None:
    (folder / "store" / "plan.json").write_text(text)
    refused(command(folder, "show", "store"), "plan.json cannot be read: it is not the plan of a store")
    done = command(folder, "run", "small.toml", "--jobs", "1", "--out", "store")
    assert done.returncode == 0, done.stderr
    assert store_damage.contents(folder / "store") == store_damage.contents(made / "store")


@pytest.mark.parametrize(
    ("key", "value"),
    [("seed", 1 << 80), ("seed", float("inf")), ("cell", {"k": "\ud800"}), ("cell", {"k": '{"a": ' * 400})],
)  # fmt: skip
def test_a_plan_with_odd_values_is_no_fault(folder: Path, key: str, value: object) -> None:
    runs = json.loads((folder / "store" / "plan.json").read_text())["runs"]
    runs[0][key] = value
    change_plan(folder / "store", runs=runs)
    done = command(folder, "show", "store")
    assert done.returncode in (0, 2), done.stderr
    assert "internal error" not in done.stderr
    assert done.stderr.count("\n") <= 1


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", RUN_FILES)
def test_members_of_a_run_are_files(folder: Path, made: Path, name: str, harm: str) -> None:
    (run,) = (folder / "store" / "runs").iterdir()
    HARMS[harm](run / name)
    message = "it is larger than" if harm == "terabyte" else "it is a "
    refused(command(folder, "verify" if name == "spec.json" else "show", "store"), name, message)
    done = command(folder, "run", "small.toml", "--jobs", "1", "--out", "store")
    assert done.returncode == 0, done.stderr
    assert store_damage.contents(folder / "store") == store_damage.contents(made / "store")


def test_a_folder_of_a_run_that_is_a_link_is_damage(folder: Path, tmp_path: Path) -> None:
    (run,) = (folder / "store" / "runs").iterdir()
    run.rename(tmp_path / "elsewhere")
    run.symlink_to(tmp_path / "elsewhere")
    before = store_damage.contents(tmp_path / "elsewhere")
    refused(command(folder, "show", "store"), f"{run.name} cannot be read: it is a link")
    assert command(folder, "run", "small.toml", "--jobs", "1", "--out", "store").returncode == 0
    assert not run.is_symlink()
    assert store_damage.contents(tmp_path / "elsewhere") == before


@pytest.mark.parametrize("name", ["runs", "packs"])
def test_folders_of_a_store_that_are_links_are_refused(folder: Path, tmp_path: Path, name: str) -> None:
    assert name == "runs" or command(folder, "pack", "store").returncode == 0
    (folder / "store" / name).rename(tmp_path / "elsewhere")
    (folder / "store" / name).symlink_to(tmp_path / "elsewhere")
    before = store_damage.contents(tmp_path / "elsewhere")
    for words in (
        ("show", "store"),
        ("pack", "store"),
        ("run", "small.toml", "--seeds", "2", "--out", "store"),
    ):
        refused(command(folder, *words), f"{name} is a link, expected a folder")
    assert store_damage.contents(tmp_path / "elsewhere") == before


def test_a_new_store_does_not_write_through_links_that_are_there(folder: Path, tmp_path: Path) -> None:
    (folder / "new").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (folder / "new" / "runs").symlink_to(tmp_path / "elsewhere")
    refused(command(folder, "run", "small.toml", "--jobs", "1", "--out", "new"), "runs is a link")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("harm", ["link", "pipe"])
def test_a_journal_is_a_file(folder: Path, tmp_path: Path, harm: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    journal = folder / "store" / "journal.jsonl"
    if harm == "pipe":
        pipe(journal)
    else:
        journal.unlink()
        journal.symlink_to(victim)
    for words in (
        ("run", "small.toml", "--seeds", "2", "--out", "store"),
        ("pack", "store"),
        ("show", "store"),
    ):
        refused(command(folder, *words), f"journal.jsonl: it is a {harm}, expected a regular file")
    assert victim.read_text() == "as it was"


@pytest.mark.parametrize("name", [".new-plan.json", ".new-scenario.toml", ".new-report.html"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_foreign_file_is_removed_and_not_written_through(
    folder: Path, tmp_path: Path, name: str, kind: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    place = folder / "store" / name
    if kind == "link":
        place.symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        (place / "inner").mkdir(parents=True)
    words = (
        ["report", "store"] if "report" in name else ["run", "small.toml", "--seeds", "2", "--out", "store"]
    )
    done = command(folder, *words)
    assert done.returncode == 0, done.stderr
    assert victim.read_text() == "as it was"
    assert not place.exists()


def test_links_in_the_place_of_parts_lead_nowhere(folder: Path, tmp_path: Path) -> None:
    (run,) = (folder / "store" / "runs").iterdir()
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "kept").write_text("as it was")
    shutil.rmtree(run)
    for name in (run.name, f"{run.name}-gone"):
        (folder / "store" / f".part-{name}").symlink_to(victim)
    done = command(folder, "run", "small.toml", "--jobs", "1", "--out", "store")
    assert done.returncode == 0, done.stderr
    assert [file.name for file in victim.iterdir()] == ["kept"]
    assert not list((folder / "store").glob(".part-*"))


# --- files that a user names ---

TRACE = SMALL.replace('delay = "50 ms"', 'delay = { trace = "trace.csv" }')
CONTACTS = SMALL.replace("[[path.segment]]", '[path]\ncontacts = "plan.toml"\n[[path.segment]]', 1)
PRESET = SMALL[: SMALL.index("[[path")] + '[path]\npreset = "mine.toml"\n' + SMALL[SMALL.index("[[flow") :]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize(
    ("scenario", "name", "words"),
    [
        (None, "harmed.toml", ["check", "harmed.toml"]),
        (TRACE, "trace.csv", ["check", "scenario.toml"]),
        (CONTACTS, "plan.toml", ["check", "scenario.toml"]),
        (PRESET, "mine.toml", ["check", "scenario.toml"]),
        (None, "page.har", ["import-har", "page.har"]),
        (None, "ping.txt", ["fit", "ping.txt"]),
        (None, "plan.ionrc", ["dtn", "plan", "plan.ionrc"]),
        (None, "plan.json", ["dtn", "plan", "plan.json"]),
    ],
)  # fmt: skip
def test_files_that_are_none_are_one_line(
    tmp_path: Path, scenario: str | None, name: str, words: Sequence[str], harm: str
) -> None:
    if scenario is not None:
        (tmp_path / "scenario.toml").write_text(scenario)
    HARMS[harm](tmp_path / name)
    texts = {"link to a device": "it is a device", "pipe": "it is a pipe", "terabyte": "it is larger than"}
    refused(command(tmp_path, *words), name, texts[harm])


NUL = r"a\u0000b"
"""As TOML writes a name that no file can have."""
ORBIT = 'constellation={ tle = "a\\u0000b.tle", elevation = "10 deg" }'
BUNDLES = f'{{ bundles = {{ layer = "quiccl", dtnperf = "-W 10 -P 1M -F {NUL} -r" }} }}'


@pytest.mark.parametrize(
    "text",
    [
        TRACE.replace("trace.csv", NUL),
        CONTACTS.replace("plan.toml", f"{NUL}.toml"),
        PRESET.replace("mine.toml", f"{NUL}.toml"),
        f'{SMALL}load = {{ page = "{NUL}.har" }}\n',
        f"{SMALL}load = {BUNDLES}\n",
    ],
    ids=["trace", "contacts", "preset", "page", "bundles"],
)
def test_a_name_that_no_file_can_have_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "scenario.toml").write_text(text)
    refused(command(tmp_path, "check", "scenario.toml"), r"a\x00b")


def test_elements_in_a_file_that_there_cannot_be_are_one_line(tmp_path: Path) -> None:
    words = ("orbit", "Paris", "Lima", "--set", ORBIT)
    refused(command(tmp_path, *words), r"a\x00b.tle", "no file can have such a name")


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_no_file_has_such_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputFileError, match="no file can have such a name"):
        read_input(tmp_path / name)


def test_a_link_to_a_file_of_ones_own_is_read(folder: Path) -> None:
    (folder / "linked.toml").symlink_to(folder / "small.toml")
    assert command(folder, "check", "linked.toml").returncode == 0


def test_a_pipe_that_the_shell_has_opened_is_read(folder: Path) -> None:
    check = f'"{sys.executable}" -m bentpipe.cli check'
    for words in (f"cat small.toml | {check} /dev/stdin", f"{check} <(cat small.toml)"):
        done = subprocess.run(
            ["bash", "-c", words], cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert "Small: 1 cell" in done.stdout


def test_standard_input_has_a_bound_too(folder: Path) -> None:
    with Path("/dev/zero").open("rb") as zeros:
        done = subprocess.run(
            [sys.executable, "-m", "bentpipe.cli", "check", "/dev/stdin"], stdin=zeros, capture_output=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")}, text=True, timeout=60, check=False,
        )  # fmt: skip
    refused(done, "/dev/stdin: cannot be read: it is larger than 67,108,864 bytes")


def test_a_scenario_does_not_read_the_terminal(folder: Path) -> None:
    (folder / "trace.toml").write_text(TRACE.replace("trace.csv", "/dev/stdin"))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waiting:
        assert waiting.stdout is not None
        before = os.dup(0)
        os.dup2(waiting.stdout.fileno(), 0)
        try:
            refused(command(folder, "check", "trace.toml"), "it is a pipe")
        finally:
            os.dup2(before, 0)
            os.close(before)
            waiting.kill()


def test_the_size_of_gzip_data_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bentpipe.fit import log_reader

    monkeypatch.setattr(log_reader, "MOST_DATA_BYTES", 1000)
    (tmp_path / "log.gz").write_bytes(gzip.compress(b"0" * 1001))
    with pytest.raises(bentpipe.ScenarioError, match="it is larger than 1,000 bytes, unpacked"):
        log_reader.read(tmp_path / "log.gz")


# --- depth ---

DEEP = "a" + ".a" * 100_000


@pytest.mark.parametrize(
    "text", [f"{DEEP} = 1", f"[{DEEP}]", f"[[ {DEEP.replace('.', ' . ')} ]]", f"x = {{ {DEEP} = 1 }}",
             f'x = ["""a"""", """b"""]\n{DEEP.replace("a", chr(34) + "b.c" + chr(34))} = 1']
)  # fmt: skip
def test_a_deep_key_takes_no_time(tmp_path: Path, text: str) -> None:
    """200 kB of it took 76 s and all memory."""
    (tmp_path / "deep.toml").write_text(text + "\n")
    refused(command(tmp_path, "check", "deep.toml"), "a key of 100,001 parts, expected at most 100")


@pytest.mark.parametrize("text", ["x = " + "[" * 300 + "]" * 300, "x = " + "{a=" * 150 + "1" + "}" * 150])
def test_deep_values_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.toml").write_text(text)
    refused(command(tmp_path, "check", "deep.toml"), "more than 100 levels deep")


def test_keys_are_distinguished_from_texts_and_comments() -> None:
    dots = "a" + ".a" * 500
    text = f'# {dots}\nx = "{dots}"\ny = """\n{dots}""""\nz = \'\'\'{dots}\'\'\'\n"{dots}".b = 1\n'
    assert parse_toml(text) == tomllib.loads(text)
    key = ".".join(["a"] * 100)
    assert parse_toml(f"{key} = 1") == tomllib.loads(f"{key} = 1")
    with pytest.raises(ValueError, match="line 2: a key of 101 parts"):
        parse_toml(f"\n{key}.a = 1")


@pytest.mark.parametrize(
    "value",
    [
        '"it\'s \\" # \\\\"', "'a \" # \\'", '""', "''", '"""a "" b"""', '"""a""""', '"""a"""""', '"""\\""""""',
        '"""\n\\\n  a\n"""', "'''it's '' \"'''", "'''a''''", "'''a'''''", "'''\n\\'''", "1.5 # it's \"",
        "1979-05-27T07:32:00.999", '["a", \'b\', """c"""]', '{ "a b".c = "d" }',
    ],
)  # fmt: skip
def test_texts_end_where_the_parser_ends_them(value: str) -> None:
    """A long key behind one is seen; a long word in one is none."""
    key = "k" + ".k" * 100
    assert tomllib.loads(f"x = {value}\ny = 1") == parse_toml(f"x = {value}\ny = 1")
    with pytest.raises(ValueError, match="a key of 101 parts"):
        parse_toml(f"x = {value}\n{key} = 1")
    for open_, close in (('"', '"'), ("'", "'"), ('"""', '"""'), ("'''", "'''"), ("1 # ", "")):
        text = f"x = {value}\ny = {open_}{key}{close}\n"
        assert parse_toml(text) == tomllib.loads(text)


MANY = 200_000
RESTARTS = [
    'x = "' + '\\"' * MANY, "x = '" + "'a" * MANY, 'x = "' + '\\"\n' * MANY, 'x = """\\' + '"""\\' * MANY, '"""' + '""a' * MANY,
    "'''" + "''a" * MANY, '"""' + "\\" * (2 * MANY + 1), "a." * MANY, "a . " * MANY, "a " * MANY, 'a."' * MANY, '"a".' * MANY,
    'a.""" ' * MANY, "a" + " " * MANY + "= 1", 'a = "\n' * MANY, "a = '\n" * MANY, '# "' * MANY, '"' * MANY, "'" * MANY, "a\n" * MANY,
    '"""' + '\\"' * MANY + "\\", '"""' + '\\"""' * MANY + "\\", "\"'\\" * MANY,
]  # fmt: skip


@pytest.mark.parametrize("text", RESTARTS, ids=range(len(RESTARTS)))
def test_no_text_is_scanned_again_and_again(text: str) -> None:
    """16 kB of the first took 0.65 s, and so 400 kB seven minutes."""
    with in_time(text[:20], 20):
        try:
            parse_toml(text)
        except ValueError:
            return


def test_json_has_a_depth() -> None:
    assert parse_json("[" * 100 + "]" * 100) == json.loads("[" * 100 + "]" * 100)
    for text in ("[" * 102 + "]" * 102, "[" * 100_000, '[{"a": ' * 60 + "1" + "}]" * 60):
        with pytest.raises(ValueError, match="more than 100 levels deep"):
            parse_json(text)


def test_reads_are_bounded_for_any_stated_size_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "ten").write_bytes(b"0123456789")
    assert read_input(tmp_path / "ten", 10) == b"0123456789"
    with pytest.raises(InputFileError, match="larger than 9 bytes"):
        read_input(tmp_path / "ten", 9)
    assert Path("/proc/self/maps").stat().st_size == 0  # as much as there is
    assert len(read_input(Path("/proc/self/maps"))) > 100
    with pytest.raises(InputFileError, match="larger than 100 bytes"):
        read_input(Path("/proc/self/maps"), 100)
    with pytest.raises(InputFileError, match="it is a directory"):
        read_input(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_input(tmp_path / "nothing")


def test_a_path_is_checked_after_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that replaces the file between two checks leads nowhere."""
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("/dev/zero")
    state = (tmp_path / "file").stat()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: state)
    with pytest.raises(InputFileError, match="it is a device"):
        input_file.open_input(tmp_path / "link")
    with pytest.raises(OSError, match="symbolic link"):
        input_file.open_input(tmp_path / "link", links=False)
