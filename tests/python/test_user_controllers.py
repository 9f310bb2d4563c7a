"""Controllers in Python that are wrong, that do not let time pass, or that never answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

import bentpipe
from bentpipe.api.run import RunsFailedError

SCENARIO: dict[str, Any] = {
    "title": "own",
    "duration": "2 s",
    "path": {
        "segment": [{"name": "s", "delay": "10 ms", "both": {"rate": "1 Mbit/s", "queue": "10 packets"}}]
    },
    "flow": [{"name": "bulk", "congestion": "mine"}],
}


class Steady:
    """Ten packets."""

    def __init__(self, config: Any) -> None:
        self.window = config.initial_window

    def on_event(self, _now: int, _event: Any) -> Any:
        return self.window


def failure(kind: type) -> str:
    """Why a run with this class fails."""
    with pytest.raises(RunsFailedError) as found:
        bentpipe.run(SCENARIO, controllers={"mine": kind})
    return found.value.summary.failed[0].error


def thresholds(value: object) -> list[float | None]:
    """Return the samples for a class with this ``ssthresh``."""
    kind = type("Local.<locals>", (Steady,), {"ssthresh": value})
    flows = bentpipe.run(SCENARIO, controllers={"mine": kind}).flows
    found: list[float | None] = flows.filter(side="client")["ssthresh_bytes"].to_list()
    return found


@pytest.mark.parametrize("value", ["high", -1, -0.5, float("nan"), float("-inf"), [1]])
def test_a_wrong_ssthresh_fails_the_run(value: object) -> None:
    message = failure(type("Local.<locals>", (Steady,), {"ssthresh": value}))
    expected = "expected bytes, a number of 0 or more, or None"
    assert message == f"controller mine: TypeError: ssthresh is {value!r}, {expected}"


def test_a_right_ssthresh_is_sampled() -> None:
    assert set(thresholds(7000.5)) == {7000}
    assert set(thresholds(float("inf"))) == set(thresholds(None)) == {None}


def test_exceptions_of_attributes_and_trace_fail_the_run() -> None:
    class Slope(Steady):
        @property
        def ssthresh(self) -> int:
            return {"a": 1}["b"]

    class Traced(Steady):
        def trace(self) -> dict[str, float]:
            raise ValueError("no\nidea")

    class Window(Steady):
        cwnd = 1e4

    assert failure(Slope).startswith("controller mine: KeyError: 'b' (test_user_controllers.py, line ")
    assert failure(Slope).endswith(", in ssthresh)")
    assert failure(Traced).startswith(
        "controller mine: ValueError: no\nidea (test_user_controllers.py, line "
    )
    assert failure(Window) == (
        "controller mine: TypeError: cwnd is 10000.0, expected bytes, a whole number below 2^64"
    )


def test_a_timeout_says_what_was_in_flight_before_and_after_its_losses() -> None:
    """RFC 6675 section 5.1: a window of ten segments is lost in an outage, and repaired one by one."""
    timeouts: list[tuple[int, int]] = []
    repairs: list[tuple[int, bool]] = []

    class Recorder(Steady):
        def on_event(self, now: int, event: Any) -> Any:
            if event.kind == "timeout":
                timeouts.append((event.flight_size, event.in_flight))
            elif event.kind == "ack" and timeouts:
                repairs.append((event.acked, event.is_in_rto_recovery))
            return super().on_event(now, event)

    up = {"rate": "10 Mbit/s", "outages": [{"at": "500 ms", "duration": "150 ms"}]}
    segment = {"name": "s", "delay": "50 ms", "up": up, "down": {"rate": "10 Mbit/s"}}
    options = {"sack": False, "timestamps": False, "frto": False, "initial_window": "10 packets"}
    flow = {"name": "bulk", "congestion": "mine", "transport": "tcp", "tcp": options}
    run = {**SCENARIO, "path": {"segment": [segment]}, "flow": [flow]}
    flows = bentpipe.run(run, controllers={"mine": Recorder}).flows
    assert flows.filter(side="client")["rtos"].to_list()[-1] == 1
    assert timeouts == [(14600, 0)]
    states = [state for _, state in repairs]
    first = states.index(False)
    assert first >= 1
    assert not any(states[first:]), "RTO recovery comes once"
    assert sum(acked for acked, _ in repairs[: first + 1]) >= 14600


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "trace() is None, expected a dict of names and numbers"),
        ({1: 2}, "a name of trace() is 1, expected text"),
        ({"gain": "x"}, "gain of trace() is 'x', expected a number"),
    ],
)
def test_a_trace_that_is_none_fails_the_run(answer: object, message: str) -> None:
    class Traced(Steady):
        def trace(self) -> object:
            return answer

    assert failure(Traced) == f"controller mine: TypeError: {message}"


@pytest.mark.parametrize(
    ("ahead", "message"),
    [
        (0, "repeatedly, 10000 times at that instant: time does not pass"),
        (-1, "which has passed"),
        (1, "more than 1000000 wake-ups in the second before"),
    ],
)
def test_a_controller_that_holds_time_fails_the_run(ahead: int, message: str) -> None:
    from bentpipe._engine import Control

    class Holds(Steady):
        def on_event(self, now: int, _event: Any) -> Any:
            return Control(self.window, wake_at_ns=now + ahead)

    found = failure(Holds)
    assert "flow bulk, its client: its controller mine requests" in found
    assert message in found


def test_check_cc_names_who_holds_time(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from bentpipe._engine import Control\n"
        "class Mine:\n"
        "    def __init__(self, config): self.window = config.initial_window\n"
        "    def on_event(self, now, event): return Control(self.window, wake_at_ns=now)\n"
    )
    words = [sys.executable, "-m", "bentpipe.cli", "check-controller", "mine.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert "requests more than 100000 timers in the second" in done.stdout


ENDLESS = """
    import os

    class Endless:
        def __init__(self, config):
            with open("begun", "w") as file:
                file.write(str(os.getpid()))

        def on_event(self, now, event):
            while True:
                pass
"""


def begun(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A process whose controller has begun."""
    process = subprocess.Popen(
        [sys.executable, *words], cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"TMPDIR": str(folder)},  # whoever is killed leaves its store there
    )  # fmt: skip
    limit = time.monotonic() + 60
    while not (folder / "begun").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.02)
    time.sleep(0.5)  # the handshake; it costs the simulator less
    return process


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("where", ["script", "module"])
def test_an_interrupt_reaches_a_loop_in_a_controller(
    tmp_path: Path, where: str, sent: signal.Signals
) -> None:
    # A class of the script runs in its process, one of a module in a worker.
    source = textwrap.dedent(ENDLESS)
    script = f"import bentpipe\nbentpipe.run({SCENARIO!r}, controllers={{'mine': Endless}})\n"
    if where == "script":
        (tmp_path / "script.py").write_text(source + script)
    else:
        (tmp_path / f"endless_{sent.name}.py").write_text(source)
        (tmp_path / "script.py").write_text(f"from endless_{sent.name} import Endless\n{script}")
    process = begun(tmp_path, "script.py")
    os.kill(process.pid, sent)
    _, message = process.communicate(timeout=20)
    assert process.returncode != 0
    if sent == signal.SIGINT:
        assert "KeyboardInterrupt" in message
    worker = Path("/proc", (tmp_path / "begun").read_text())
    limit = time.monotonic() + 10
    while worker.exists() and time.monotonic() < limit:
        time.sleep(0.05)
    assert not worker.exists()


def test_a_worker_in_a_loop_ends_with_its_coordinator(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(textwrap.dedent(ENDLESS))
    (tmp_path / "script.py").write_text(
        "import bentpipe\nfrom endless import Endless\n"
        f"bentpipe.run({SCENARIO!r}, jobs=1, controllers={{'mine': Endless}})\n"
    )
    process = begun(tmp_path, "script.py")
    worker = Path("/proc", (tmp_path / "begun").read_text())
    assert worker.name != str(process.pid)
    process.kill()
    process.wait()
    limit = time.monotonic() + 10
    while worker.exists() and time.monotonic() < limit:
        time.sleep(0.05)
    assert not worker.exists()
