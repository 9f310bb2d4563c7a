"""Tests of ``scripts/test``: parallel steps, each with its output in one piece, its seconds and its counts."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/test"
CARGO = """
test result: ok. 62 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.29s
test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 3 filtered out; finished in 6.73s
"""


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the script as a module that writes its logs to a temporary folder."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("steps", str(SCRIPT))
    spec = importlib.util.spec_from_loader("steps", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "steps", module)
    loader.exec_module(module)
    monkeypatch.setattr(module, "LOGS", tmp_path)
    return module


def test_rows_run_in_parallel_and_each_output_is_in_one_piece(
    steps: ModuleType, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The first two steps wait for each other's file. Their outputs are not mixed."""
    left, right = tmp_path / "left", tmp_path / "right"
    script = "echo {0} 1; touch {1}; until [ -e {2} ]; do sleep 0.01; done; echo {0} 2 >&2"
    one = steps.Step("one", ["sh", "-c", script.format("one", left, right)])
    two = steps.Step("two", ["sh", "-c", script.format("two", right, left) + "; exit 3"])
    three = steps.Step("three", ["sh", "-c", "echo $VARIABLE"], {"VARIABLE": "its value"})
    steps.run_rows([one, three], [two])
    assert capfdbinary.readouterr().out == (
        b"\n=== one ===\none 1\none 2\n\n=== three ===\nits value\n\n=== two ===\ntwo 1\ntwo 2\n"
    )
    assert [step.name for step in steps.done] == ["one", "three", "two"]
    assert one.line().split()[3:] == ["s", "one", "1", "passed"]
    assert two.line().split()[3:] == ["s", "two", "FAILED", "(1)"]


@pytest.mark.parametrize(
    ("output", "status", "counts"),
    [
        ("no counts", 0, (1, 0, 0)),
        ("no counts", 2, (0, 1, 0)),
        (CARGO, 101, (66, 2, 1)),
        ("==== 200 passed, 1 skipped, 2548 deselected in 483.87s (0:08:03) ====", 0, (200, 0, 1)),
        ("==== 1 failed, 5 passed, 2 errors in 3.10s ====", 1, (5, 3, 0)),
        ("==== 5 passed in 3.10s ====", 1, (5, 1, 0)),  # the quota of tests that give up
    ],
)  # fmt: skip
def test_tests_are_counted(steps: ModuleType, output: str, status: int, counts: tuple[int, int, int]) -> None:
    step = steps.Step("one", ["sh", "-c", f"echo '{output}'; exit {status}"])
    step.run()
    assert tuple(step.counts[key] for key in ("passed", "failed", "skipped")) == counts


def test_a_step_without_its_program_fails_and_its_row_continues(
    steps: ModuleType, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    row = [steps.Step("one", ["/nothing/is/here"]), steps.Step("two", ["true"])]
    steps.run_rows(row)
    assert b"No such file or directory: '/nothing/is/here'" in capfdbinary.readouterr().out
    assert "FAILED (1)" in row[0].line()
    assert row[1].status == 0


def test_cpu_seconds_include_all_processes_of_a_step(steps: ModuleType) -> None:
    busy = f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.3: pass'"
    step = steps.Step("one", ["sh", "-c", f"{busy} & {busy} & wait; sleep 0.2"])
    step.run()
    assert step.cpu_seconds >= 0.6
    assert step.seconds >= 0.5
    assert float(step.line().split()[2]) == pytest.approx(step.cpu_seconds, abs=0.06)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create a folder with a Makefile that has every target. All targets pass at once."""
    targets = ("venv-dev checked check-rustfmt check-clippy check-rustdoc check-ruff check-mypy check-imports "
               "check-licences check-stub check-rust check-python check-live")  # fmt: skip
    (tmp_path / "Makefile").write_text(f"{targets}:\n\t@echo made $@\ncheck-lab:\n\t@$(LABS)\n")
    return tmp_path


def test_lab_tests_that_gave_up_run_again_alone_at_most_twice(checkout: Path) -> None:
    labs = (
        'if [ -z "$(TESTS)" ]; then printf "one::a\\ntwo::b\\n" > $$BENTPIPE_SKIPPED_TESTS; echo "== 3 passed, 3 skipped in 1.0s =="; exit; fi;'
        ' echo "$(TESTS):"; cat target/test-logs/gave-up;'
        ' if [ -n "$$BENTPIPE_SKIPPED_TESTS" ]; then echo two::b > $$BENTPIPE_SKIPPED_TESTS; echo "== 1 passed, 1 skipped in 1.0s ==";'
        ' else echo "== 1 passed in 1.0s =="; fi'
    )
    (checkout / "Makefile").write_text((checkout / "Makefile").read_text().replace("$(LABS)", labs))
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=checkout, capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"BENTPIPE_NO_SETUP": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "=== lab-alone ===\n@target/test-logs/gave-up:\none::a\ntwo::b\n" in done.stdout
    assert "=== lab-once-more ===\n@target/test-logs/gave-up:\ntwo::b\n" in done.stdout
    *_, table = done.stdout.split("CPU seconds of each step")
    assert [line.split()[4] for line in table.splitlines()[1:-3]] == [
        "venv", "rustfmt", "ruff", "mypy", "imports", "licences", "build", "stub", "python-tests",
        "clippy", "rustdoc", "rust-tests", "live-tests", "lab-tests", "lab-alone", "lab-once-more",
    ]  # fmt: skip
    assert table.splitlines()[-1] == "18 passed, 0 failed, 1 skipped"


def test_a_step_is_skipped_if_its_requirement_failed(checkout: Path) -> None:
    text = (checkout / "Makefile").read_text().replace("venv-dev ", "").replace("$(LABS)", "exit 7")
    (checkout / "Makefile").write_text(f"{text}venv-dev:\n\t@exit 3\n")
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=checkout, capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"BENTPIPE_NO_SETUP": "1"},
    )  # fmt: skip
    assert done.returncode == 1
    *_, table = done.stdout.split("CPU seconds of each step")
    results = {line.split()[4]: line.split(maxsplit=5)[5] for line in table.splitlines()[1:-3]}
    skipped = dict.fromkeys(("ruff", "mypy", "imports", "licences"), "not run, 1 skipped")
    assert results == {"venv": "FAILED (1)", "rustfmt": "1 passed", **skipped, "build": "1 passed"}
    assert "=== mypy ===\nskipped: requires venv\n" in done.stdout
    assert table.splitlines()[-1] == "2 passed, 1 failed, 4 skipped"


def test_ctrl_c_ends_both_rows(checkout: Path) -> None:
    """Their processes end too, even if the parent of the script ignores SIGINT."""
    sleep = "echo $$$$ > {0}.new; mv {0}.new {0}; exec sleep 600"
    text = (checkout / "Makefile").read_text().replace("$(LABS)", sleep.format("lab"))
    (checkout / "Makefile").write_text(
        text.replace(" check-rust ", " ") + f"check-rust:\n\t@{sleep.format('rust')}\n"
    )
    process = subprocess.Popen(
        ["sh", "-c", f"trap '' INT; exec {sys.executable} {SCRIPT}"], cwd=checkout, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | {"BENTPIPE_NO_SETUP": "1"},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not all((checkout / name).exists() for name in ("lab", "rust")):
        time.sleep(0.02)
    pids = [int((checkout / name).read_text()) for name in ("lab", "rust")]
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1].endswith("interrupted; rerun the command to resume\n")
    assert process.returncode == 130
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
