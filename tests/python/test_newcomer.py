"""First mistakes with a command: one message, exit status 2, no effects; and the options of the manual."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

import commands
import realtime
from bentpipe.lab.free_port import free_port

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = """duration = "1 s"
[[path.segment]]
name = "satellite"
delay = "250 ms"
both = { rate = "10 Mbit/s" }
[[flow]]
name = "download"
direction = "down"
congestion = "cubic"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "good.toml").write_text(SCENARIO)
    (tmp_path / "single.toml").write_text(SCENARIO.replace("[[flow]]", "[flow]"))
    (tmp_path / "segment.toml").write_text(SCENARIO.replace("[[path.segment]]", "[path.segment]"))
    (tmp_path / "proxy.toml").write_text(
        SCENARIO + '[[path.proxy]]\nname = "gateway"\n[[path.segment]]\nname = "ground"\n'
    )
    (tmp_path / "utf16.toml").write_text(SCENARIO, encoding="utf-16")
    (tmp_path / "latin.toml").write_bytes(b"# a\n# caf\xe9\n" + SCENARIO.encode())
    (tmp_path / "binary.toml").write_bytes(b"\x7fELF\0\xff\0")
    (tmp_path / "empty.har").write_text("")
    (tmp_path / "page.har").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.toml").write_text(SCENARIO.replace('"download"', '"download'))
    (tmp_path / "key.toml").write_text(SCENARIO + 'congestion = "bbr"\n')
    (tmp_path / "flow.toml").write_text(SCENARIO.split("[[flow]]", maxsplit=1)[0])
    (tmp_path / "path.toml").write_text('duration = "1 s"\n[[flow]]\nname = "a"\ncongestion = "cubic"\n')
    (tmp_path / "node.toml").write_text('name = "1"\n')
    (tmp_path / "plan.json").write_text("{")
    (tmp_path / "mistaken.py").write_text("class Mine:\n    pass\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("check utf16.toml", "utf16.toml: is UTF-16 text, expected UTF-8; save it as UTF-8"),
        ("check latin.toml", "latin.toml: is not UTF-8: byte 0xe9 in line 2; save it as UTF-8"),
        (
            "check single.toml",
            'single.toml: flow: [flow] is one table, expected a list of them; did you mean "[[flow]]"?',
        ),
        (
            "check single.toml --set flow.download.congestion=bbr",
            'single.toml: flow: [flow] is one table, expected a list of them; did you mean "[[flow]]"?',
        ),
        (
            "check segment.toml",
            'segment.toml: path.segment: [path.segment] is one table, expected a list of them; did you mean "[[path.s',
        ),
        (
            "check segment.toml --set path.preset=geo-konnect",
            'segment.toml: path.segment: [path.segment] is one table, expected a list of them; did you mean "[[path.s',
        ),
        (
            "check proxy.toml",
            "proxy.toml: path.gateway.between: missing, expected between = [...] with two segments that follow",
        ),
        (
            """check good.toml --set 'path.satellite.delay=["1 ms", "2 ms"]'""",
            """good.toml: path.satellite.delay: found ['1 ms', '2 ms'], expected a duration such as "250 ms"; did you """,
        ),
        (
            """check good.toml --set 'path.satellite.up.rate=["1 Mbit/s"]'""",
            """good.toml: path.satellite.up.rate: found ['1 Mbit/s'], expected a rate above 0 such as "10 Mbit/s"; di""",
        ),
        (
            """check good.toml --set 'flow.download.congestion=["cubic","bbr"]'""",
            'good.toml: flow.download.congestion: found a list, expected text; did you mean to sweep it, as "sweep.flow',
        ),
        (
            "check good.toml --set 'seeds=[1,1]'",
            "good.toml: seeds: found [1, 1], expected a number of seeds from",
        ),
        ("change delay=fast --control nothing", 'delay: found "fast", expected a duration such as "250 ms"'),
        (
            "change delay=5ms --control nothing",
            "no response from a lab at nothing (No such file or directory)",
        ),
        ("check binary.toml", "binary.toml: is not text, expected UTF-8"),
        (
            "run good.toml --jobs 2 --cluster dask://127.0.0.1:1",
            "--jobs: cannot be combined with --cluster: the cluster determines the number of workers",
        ),
        (
            "run good.toml --out good.toml/x",
            "good.toml/x: cannot create the directory: Not a directory; choose",
        ),
        ("import-har pages.har", 'no file "pages.har"; did you mean "page.har"?'),
        ("import-har empty.har", "empty.har is empty, expected a HAR file"),
        ("break-even geo-konect", 'ACCESS: no preset "geo-konect", expected one of: adsl, '),
        (
            "break-even geo-viasat --controllers cubci",
            '--controllers: no controller "cubci", expected one of: ',
        ),
        ("break-even geo-viasat --tcp bbrr", '--tcp: no controller "bbrr", expected one of: '),
        ("shell geo-konect", 'ACCESS: no preset "geo-konect", expected one of: adsl, '),
        ("study thomas-2018", 'NAME: no study "thomas-2018", expected one of: '),
        (
            "serve target-a --congestion cubci",
            '--congestion: no controller "cubci", expected one of: newreno',
        ),
        ("serve target-a --name a_b", '--name: found "a_b", expected a host such as "host.example.org"'),
        ("serve ''", "PAGE: found nothing, expected a page, a scenario, or a folder such as ."),
        ("serve ./nothing", 'PAGE: no file or folder "./nothing"'),
        ("serve ./foldr", 'PAGE: no file or folder "./foldr"; did you mean "folder"?'),
        ("serve ./nothing/page", 'PAGE: no file or folder "./nothing/page"; there is no folder "nothing"'),
        (
            "serve target-c",
            (
                'PAGE: no page "target-c", expected one of: almanac-2019-light, almanac-2019, almanac-2024, target-a, '
                'target-b; or a file or folder; did you mean "target-'
            ),
        ),
        (
            "shell lte-4g --set path.lte.dely=1ms",
            (
                'lte-4g: path.lte.dely: no key "dely", expected one of: delay, up, down, both, name, '
                'store_and_forward; did you mean "delay"? (in --set)\n'
            ),
        ),
        (
            "shell lte-4g --set path.satellite.delay=1ms",
            'lte-4g: path.satellite.delay: no segment "satellite", expected one of: lte (in --set)\n',
        ),
        ("serve pages.har", 'no file "pages.har"; did you mean "page.har"?'),
        ("browse good.toml --timeout 0s", '--timeout: found "0s", expected a time above 0'),
        ("browse good.toml --pause nonsense", '--pause: found "nonsense", expected a duration such as'),
        ("perf client 127.0.0.1 --time 10", '--time: found "10" without a unit, expected a duration such as'),
        ("perf server --listen 127.0.0.1:x", '--listen: found port "x", expected 1 to 65535'),
        (
            "compare-engines good.toml --summary t.md",
            "--summary: requires a folder of scenarios, found good.toml",
        ),
        ("compare-engines good.toml --archive t.xz", "--archive: requires a folder of scenarios, found"),
        (
            "compare-engines folder --report p.html",
            "--report: requires one scenario, found the folder folder",
        ),
        # Wrong arguments.
        ("chek good.toml", 'no command "chek", expected one of: new, run, check, examples, '),
        (
            "perf answer",
            'no command "answer", expected one of: server, client, call-server, call-client',
        ),
        ("check good.toml --sed 3", 'no option "--sed"; did you mean "--seeds"?; see bentpipe check --help'),
        ("break-even --bandwidth 5Mbit/s", 'no option "--bandwidth"; did you mean "--down"?'),
        ("break-even --proxies plain", 'no option "--proxies"; did you mean "--pep"?'),
        ("break-even --users 9", 'no option "--users"; "bentpipe capacity" finds how many users fit'),
        ("capacity --users 9", 'no option "--users"; did you mean "--mix"?'),
        ("link-layer --loss 1%", 'no option "--loss"; did you mean --set "path.SEGMENT.both.loss=1%"?'),
        ("shell --users 9", 'no option "--users"; did you mean "--background-users"?'),
        ("check good.toml --seeds", "--seeds: missing, expected a value; see "),
        ("check good.toml --seeds 0", '--seeds: found "0", expected at least 1; see bentpipe check --help'),
        (
            "check good.toml --seeds many",
            '--seeds: found "many", expected a whole number; see bentpipe check',
        ),
        ("run good.toml --jobs 0", '--jobs: found "0", expected at least 1; see bentpipe run --help'),
        ("check good.toml good.toml", 'unexpected argument "good.toml"; see bentpipe check --help'),
        ("show", "DIR: missing, expected: store; see bentpipe show --help"),
        ("perf client", "HOST: missing, expected: server; see bentpipe perf client --help"),
        ("compare-builds good.toml", "--before: missing, expected: "),
        ("export folder --format xls", '--format: found "xls", expected one of: csv, parquet, json, ods, '),
        (
            "compare-builds geo-konnect --before a --seeds 3 -- ls {}",
            "--seeds: cannot be combined with a command, which runs in emulation",
        ),
        (
            "compare-builds good.toml --before a --server-port 80",
            "--server-port: requires a command after --",
        ),
        # Wrong files and values.
        ("check nothing.toml", "nothing.toml: no such file\n"),
        ("check goood.toml", 'goood.toml: no such file; did you mean "good.toml"?\n'),
        ("check text.toml", "text.toml: is not TOML: line 7, column 17: unterminated text or line\n"),
        ("check key.toml", "key.toml: is not TOML: line 10, column 19: duplicate key\n"),
        ("check flow.toml", "flow.toml: flow: missing, expected [[flow]]\n"),
        ("check path.toml", "path.toml: path: missing, expected [[path.segment]], path.preset or [graph]\n"),
        ("dtn node node.toml", "node.toml: neighbour: missing, expected [[neighbour]]\n"),
        ("dtn plan plan.json", "plan.json: is not JSON: line 1, column 2: expected a key in double quotes\n"),
        (
            "import-har good.toml",
            "good.toml is not a HAR file: not JSON: line 1, column 1: expected a value",
        ),
        (
            "check good.toml --set flow.download.transport=sctp",
            'good.toml: flow.download.transport: found "sctp", expected one of: quic, tcp, udp; did you mean',
        ),
        (
            "check good.toml --sweep path.preset=lte-4g,geo-konect",
            'good.toml: path.preset: no preset "geo-konect", expected one of: ',
        ),
        (
            "run good.toml --controller mine=mistaken.py:Mine",
            '--controller: mistaken.py: class "Mine" is not a controller, expected a method on_event',
        ),
        (
            "run good.toml --controller mine=missing_class.py:Yours",
            '--controller: missing_class.py: no class "Yours", expected one with a method on_event',
        ),
        ("run good.toml --controller mine=none.py:Mine", '--controller: no file "none.py"\n'),
        (
            "run good.toml --controller cubic=mistaken.py:Mine",
            '--controller: "cubic" is a built-in name, expected another name',
        ),
        (
            "orbit Paris Berlin --duration 0s",
            '--duration: found "0s", expected a duration above 0 such as "10 min"',
        ),
    ],
)
def test_a_mistake_is_one_message(place: Path, words: str, message: str) -> None:
    pytest.importorskip("bentpipe._engine")
    if "missing_class.py" in words:  # Python would import that of the first test that has it
        (place / "missing_class.py").write_text("class Mine:\n    pass\n")
    before = sorted(place.rglob("*"))
    done = commands.bentpipe(place, *shlex.split(words))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1
    assert "pydantic" not in done.stderr
    assert sorted(path for path in place.rglob("*") if "__pycache__" not in path.parts) == before


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("bentpipe._engine")
    folder = tmp_path_factory.mktemp("results")
    (folder / "good.toml").write_text(SCENARIO)
    done = commands.bentpipe(folder, "run", "good.toml", "--seeds", "1", "--out", "store")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("query store 'SELEC 1'", 'invalid query: syntax error at or near "SELEC"\n'),
        ("query store 'SELECT * FROM run'", 'no table "run", expected one of: runs, flow_summary, '),
        (
            "query store 'SELECT sed FROM runs'",
            'no column "sed" in runs, expected one such as: seed, run; did you mean "seed"?\n',
        ),
        (
            "query store 'SELECT goodput\nFROM runs'",
            'no column "goodput" in runs, expected one such as: run, seed\n',
        ),
        (
            "query store 'SELECT seed\nFROM runs\nWERE seed = 1'",
            'invalid query: line 3: syntax error at or near "seed"\n',
        ),
        ("query store 'SELECT nothing(1)'", 'invalid query: no function "nothing"'),
        ("query store ''", 'SQL: missing, expected a query such as "SELECT * FROM runs"\n'),
        (
            "export store --format qlog",
            "store: no qlog traces in this store; repeat one run with export --run ID, ",
        ),
        (
            "dtn gap store",
            "store: no bundle nodes with a contact plan in this store; give a contact plan with",
        ),
        ("report store --figures f --figure nothing", '--figure: no figure "nothing", expected one of: '),
        ("report store --figures f --seed 7", "--seed: found 7, expected one of: 1\n"),
    ],
)
def test_a_mistake_about_a_store_is_one_message(store: Path, words: str, message: str) -> None:
    before = sorted(store.rglob("*"))
    done = commands.bentpipe(store, *shlex.split(words))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1
    assert sorted(store.rglob("*")) == before


def test_an_option_of_the_command_behind_a_shell(place: Path) -> None:
    done = commands.bentpipe(place, "shell", "geo-konnect", "curl", "-x")
    assert done.returncode == 2
    assert (
        "if it belongs to the command, put -- before the command: bentpipe shell ACCESS -- CMD -x"
        in done.stderr
    )


def test_values_that_were_set_as_a_list_can_be_swept(place: Path) -> None:
    wish = 'sweep.path.satellite.delay=["1 ms", "2 ms"]'
    done = commands.bentpipe(place, "check", "good.toml", "--set", wish, "--json")
    assert '"cells": 2' in done.stdout, done.stderr


def _options() -> dict[str, set[str]]:
    """Every command with its long options."""
    from bentpipe.cli import app

    found: dict[str, set[str]] = {}

    def walk(command: typer.core.TyperCommand, name: str) -> None:
        for word, inner in getattr(command, "commands", {}).items():
            walk(inner, f"{name} {word}".strip())
        options = (word for one in command.params for word in (*one.opts, *one.secondary_opts))
        found[name] = {word for word in options if word.startswith("--")}

    walk(typer.main.get_command(app), "")
    return found


def test_the_manual_has_every_option_and_no_other() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "docs/tutorial.md",
        *sorted((ROOT / "docs/how-to").glob("*.md")),
        *sorted((ROOT / "docs/reference").glob("*.md")),
    ]
    text = "\n".join(page.read_text() for page in pages)
    options = _options()
    written = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", text))
    assert set().union(*options.values()) - written == set()
    blocks = "\n".join(re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL))
    examples = re.findall(
        r"^(?:\$ )?bentpipe (presets export|(?:perf|dtn) [\w-]+|[\w-]+)(.*)$", blocks, re.MULTILINE
    )
    assert len(examples) > 30
    for command, rest in examples:
        own = re.split(r" -- |#", re.sub(r'"[^"]*"', "", rest))[0]
        assert set(re.findall(r"(?<![\w-])--[a-z][\w-]+", own)) <= options[command], f"{command}{rest}"


@pytest.mark.parametrize(
    ("how", "send"),
    [(signal.SIGTERM, os.kill), (signal.SIGINT, os.kill), (signal.SIGINT, os.killpg)],
    ids=["SIGTERM", "SIGINT", "Ctrl-C at a terminal"],
)
def test_a_folder_is_served_until_a_signal(
    place: Path, how: signal.Signals, send: Callable[[int, int], None]
) -> None:
    program = realtime.program()
    listen = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "bentpipe.cli", "serve", "folder", "--listen", listen]
    environment = {**realtime.os.environ, "BENTPIPE_RT": str(program)}
    with subprocess.Popen(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert (
                process.stdout.readline() == f"listening at {listen} by h3, h2, http/1.1: the folder folder\n"
            )
            send(process.pid, how)
            rest, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert rest.startswith("0 requests")
    assert errors == ""
    assert process.returncode == 0


def test_the_command_that_makes_a_run_again_is_one_that_does(place: Path) -> None:
    """In real time runs have other ids and another engine than in virtual time."""
    pytest.importorskip("bentpipe._engine")
    true = shutil.which("true")
    environment = {**realtime.os.environ, "BENTPIPE_RT": str(true)}
    words = ["run", "good.toml", "--engine", "emu", "--seeds", "2", "--set", "duration=2 s"]
    done = commands.bentpipe(place, *words, environment=environment)
    assert done.returncode == 1
    again = re.findall(r"again: bentpipe (.+)", done.stderr)
    assert len(again) == 1, "both runs fail alike"
    done = commands.bentpipe(place, *shlex.split(again[0]), environment=environment)
    assert done.returncode == 1, done.stderr
    assert re.findall(r"again: bentpipe (.+)", done.stderr) == again


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ("-h", "Usage: bentpipe [OPTIONS] COMMAND"),
        ("help", "Usage: bentpipe [OPTIONS] COMMAND"),
        ("help run", "Usage: bentpipe run [OPTIONS] {FILE}"),
        ("run -h", "Usage: bentpipe run [OPTIONS] {FILE}"),
        ("help perf client", "Usage: bentpipe perf client [OPTIONS]"),
        ("--show-completion bash", "_bentpipe_completion()"),
    ],
)
def test_first_words(words: str, output: str) -> None:
    """Every form of a request for help works; also of the module, without a command on the path."""
    shell = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "bentpipe", *words.split()],
        capture_output=True,
        text=True,
        timeout=60,
        env=shell,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.lstrip().startswith(output)


def test_help_on_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bentpipe", "help", "rum"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith('error: COMMAND: no command "rum", expected one of: new, run, ')
    brief = commands.bentpipe(tmp_path, "help", "brief")
    assert (
        brief.stderr == 'error: COMMAND: no command "brief"; "report --brief" writes the brief of a store\n'
    )
    assert done.stderr.endswith('did you mean "run"?\n')


def test_the_package_lists_what_a_user_calls() -> None:
    pytest.importorskip("bentpipe._engine")
    import bentpipe

    assert dir(bentpipe) == sorted(bentpipe.__all__)
    assert all(getattr(bentpipe, name) is not None for name in dir(bentpipe))
    assert re.fullmatch(r"\d+\.\d+\.\d+\+[0-9a-f]{8}", bentpipe.__version__)


@pytest.mark.parametrize(
    ("compiled", "asked", "profile"),
    [("", "", "demo"), ("release", "", "release"), ("a-host/release", "", "demo"), ("release", "dev", "dev")],
)
def test_a_demo_keeps_the_engine_that_is_compiled_for_speed(
    tmp_path: Path, compiled: str, asked: str, profile: str
) -> None:
    """As far as what it has made. ``compiled`` is the folder of one in cargo's: a host's without counts is a wheel's."""
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    make.chmod(0o755)
    if compiled:
        (tmp_path / compiled).mkdir(parents=True)
        (tmp_path / compiled / "lib_engine.so").touch()
    own = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CARGO_TARGET_DIR": str(tmp_path), "CARGO_PROFILE": asked}
    done = subprocess.run([ROOT / "scripts/demo", "out"], env=own, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, f"-j2 venv engine CARGO_PROFILE={profile}\n"), done


def test_an_engine_that_is_not_compiled_for_speed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("bentpipe._engine")
    from bentpipe import _engine
    from bentpipe.doctor import examine
    from bentpipe.runners import engine

    assert _engine.profile() in ("guided", "release", "demo", "debug")
    output = {
        "guided": "",
        "release": "compiled by profile 'release'; `make train engine` makes a quicker one",
        "demo": "compiled by profile 'demo'; `make train engine` makes a quicker one",
    }
    for profile, slow in output.items():
        monkeypatch.setattr(_engine, "profile", lambda profile=profile: profile)
        assert engine.slowness() == slow
        row = next(one for one in examine() if one.what == "engine")
        assert row.found.endswith(slow or " controllers")


def test_the_next_commands_of_the_demo_work(tmp_path: Path) -> None:
    """The lines that scripts/demo prints at its end, in a shell of a newcomer's: PATH holds nothing of bentpipe's."""
    output = re.findall(r'^echo "  ([^"]+)"$', (ROOT / "scripts/demo").read_text(), re.MULTILINE)
    activate, again = (line.split("#")[0].strip() for line in output if not line.startswith("file:"))
    assert activate in (ROOT / "README.md").read_text()
    if not (ROOT / ".venv/bin/activate").is_file():
        pytest.skip("not in a checkout with a .venv")
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    script = f"{activate} && {again.replace('out/leo', str(tmp_path / 'leo'))} --seeds 1"
    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=clean, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "leo/plan.json").is_file()
