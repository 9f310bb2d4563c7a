"""Ctrl-C before a command has begun ends it silently with 130."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nightly import keep

ROOT = Path(__file__).parents[2]
DELAYS_S = (0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.16, 0.2, 0.3, 0.4, 0.6, 0.9)


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """The command as ``scripts/venv`` writes it, with this Python."""
    text = (ROOT / "scripts" / "venv").read_text()
    found = re.search(
        r"^(interpreter=.*?)^cat > \.venv/bin/bentpipe <<END\n(.*?)^END$", text, re.DOTALL | re.MULTILINE
    )
    assert found is not None
    command, script = found[1].replace("$PWD/.venv/bin/python", sys.executable), tmp_path / "bentpipe"
    first = subprocess.run(
        ["sh", "-euc", command + 'printf %s "$interpreter"'], capture_output=True, text=True, check=True
    )
    script.write_text(found[2].replace("$interpreter", first.stdout))
    script.chmod(0o755)
    return script


def environment(*folders: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": ":".join(map(str, (ROOT / "python", *folders)))}


def ended(code: str, *folders: Path) -> tuple[int, str]:
    """Return status and messages of a Python process that runs ``code`` with modules in ``folders``."""
    done = subprocess.run(
        # The tests may run where a hang-up is ignored, and a lab would then ignore it too.
        ["env", "--default-signal=HUP", sys.executable, "-c", code],
        env=environment(*folders),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return done.returncode, done.stderr


def test_the_launcher_is_the_command(launcher: Path) -> None:
    done = subprocess.run(
        [launcher, "presets"], env=environment(), capture_output=True, text=True, check=True
    )
    assert "geo-konnect" in done.stdout


@pytest.mark.parametrize(
    "words",
    keep(
        [["show", "no-store"]], [["check", "scenarios/geo.toml"], ["show", "no-store"], ["shell", "--help"]]
    ),
)
def test_ctrl_c_at_any_time_of_the_start_is_silent(launcher: Path, words: list[str]) -> None:
    """Python itself ends by the signal until it handles it, which a shell calls 130 too."""

    def interrupted(delay_s: float) -> tuple[float, int, str]:
        with subprocess.Popen(
            [launcher, *words],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            time.sleep(delay_s)
            process.send_signal(signal.SIGINT)
            _, message = process.communicate(timeout=60)
        return delay_s, process.returncode, message

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(interrupted, DELAYS_S))
    stopped = [one for one in found if one[1] in (130, -signal.SIGINT)]
    # A command that has reported its error is interrupted on its way out.
    report = subprocess.run(
        [launcher, *words], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    ).stderr
    assert [one for one in stopped if one[2] not in ("", report)] == []
    ended = [one for one in found if one not in stopped]  # it was over before
    assert [one for one in ended if one[1] not in (0, 2) or "Traceback" in one[2]] == []
    assert len(stopped) >= 3


def test_background_processes_of_a_shell_ignore_it(launcher: Path) -> None:
    """A shell without job control starts it with SIGINT ignored, and so it stays."""
    words = f'trap "" INT; "{launcher}" presets & sleep 0.1; kill -INT $!; wait $!'
    done = subprocess.run(["sh", "-c", words], env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "geo-konnect" in done.stdout


COMMAND = """
import os, signal, sys
from bentpipe import cli, launch
from bentpipe.store.files import StoreError

def build(**_):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt as end:
        {handler}
    {after}

cli.app = build
signal.signal(signal.SIGINT, launch.end_silently)
cli.main()
"""


def interrupted(handler: str, after: str = "pass") -> tuple[int, str]:
    """Return status and messages of a command that does ``handler`` when Ctrl-C comes, and then ``after``."""
    return ended(COMMAND.format(handler=handler, after=after))


@pytest.mark.parametrize(
    ("handler", "after"),
    [
        ('raise ValueError("KeyboardInterrupt: ") from end', "pass"),
        ('raise ValueError("KeyboardInterrupt: ") from None', "pass"),
        ("pass", 'raise ValueError("Error building a validator:\\n  KeyboardInterrupt: ")'),
        ('raise ValueError("the class is not built") from end', "pass"),
        ('raise ValueError("the class is not built")', "pass"),
        ("pass", "raise KeyboardInterrupt"),
    ],
)
def test_a_library_that_makes_an_error_of_ctrl_c_is_interrupted_all_the_same(
    handler: str, after: str
) -> None:
    """As pydantic does while it builds a class: its SchemaError names KeyboardInterrupt."""
    assert interrupted(handler, after) == (130, "")


@pytest.mark.parametrize(
    ("handler", "after", "message"),
    [
        ("pass", 'raise StoreError("another reason")', "error: another reason\n"),
        ('raise StoreError("another reason") from None', "pass", "error: another reason\n"),
        (
            "pass",
            'raise StoreError("KeyboardInterrupt: no such file")',
            "error: KeyboardInterrupt: no such file\n",
        ),
    ],
)
def test_an_error_after_ctrl_c_with_another_cause_is_reported(handler: str, after: str, message: str) -> None:
    """``perf call-client``, ``serve`` and ``shell`` take Ctrl-C as their ordinary end."""
    assert interrupted(handler, after) == (2, message)


def test_ctrl_c_while_pydantic_builds_a_class_is_silent() -> None:
    """Its error has no cause: only its text names KeyboardInterrupt."""
    code = """
import os, signal
from pydantic_core import SchemaValidator, core_schema
from bentpipe import cli, launch

class Member:
    @property
    def value(self):
        os.kill(os.getpid(), signal.SIGINT)

cli.app = lambda **_: SchemaValidator(core_schema.enum_schema(Member, [Member()]))
signal.signal(signal.SIGINT, launch.end_silently)
cli.main()
"""
    assert ended(code) == (130, "")


def test_ctrl_c_during_an_import_waits_for_its_end(tmp_path: Path) -> None:
    """Polars panics where its import is interrupted."""
    (tmp_path / "slow_module.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nloaded = 1\n"
    )
    code = """
import signal, sys, time
from bentpipe import cli, launch

def command(**_):
    import slow_module
    print(slow_module.loaded, file=sys.stderr)
    time.sleep(60)

cli.app = command
signal.signal(signal.SIGINT, launch.end_silently)
cli.main()
"""
    assert ended(code, tmp_path) == (130, "1\n")


def test_ctrl_c_while_an_error_is_reported_is_silent() -> None:
    code = """
import os, signal
from bentpipe import cli, launch
from bentpipe.store.files import StoreError

class Late(StoreError):
    def __str__(self):
        os.kill(os.getpid(), signal.SIGINT)
        return "late"

def command(**_):
    raise Late

cli.app = command
signal.signal(signal.SIGINT, launch.end_silently)
cli.main()
"""
    assert ended(code) == (130, "")


def test_ctrl_c_where_nothing_can_be_raised_is_raised_after_it() -> None:
    """As in a destructor, or in a call from a library in another language."""
    code = """
import os, signal, time
from bentpipe import cli, launch

class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

def command(**_):
    held = Held()
    del held
    time.sleep(60)

cli.app = command
signal.signal(signal.SIGINT, launch.end_silently)
cli.main()
"""
    assert ended(code) == (130, "")


def ended_lab(statement: str, modules: Path) -> tuple[int, str]:
    """Return status and messages of a process that has a lab and gets a signal by ``statement``."""
    code = f"""
import os, time
from bentpipe.lab.process import defer_signals

with defer_signals():
    {statement}
    time.sleep(60)
"""
    return ended(code, modules)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_a_lab_during_an_import_waits_for_its_end(tmp_path: Path, number: signal.Signals) -> None:
    """A library that loses the exception would keep the lab."""
    (tmp_path / "losing_module.py").write_text(
        f"import os\ntry:\n    os.kill(os.getpid(), {number:d})\nexcept BaseException:\n    pass\n"
    )
    assert ended_lab("import losing_module", tmp_path) == (-number, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_a_lab_where_nothing_can_be_raised_follows_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    """As in a destructor, or while pydantic makes a class."""
    destructor = f"lambda _: os.kill(os.getpid(), {number:d})"
    assert ended_lab(f"type('Held', (), {{'__del__': {destructor}}})()", tmp_path) == (-number, "")
