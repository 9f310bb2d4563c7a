"""Skips that follow what a test saw (the machine was too busy) are counted: too many of them hide a regression."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import realtime

QUOTA = 3
"""Most tests of a session that may give up because the machine was too busy. Each has tried three times, and they are about
forty. A test gives up once in 64 sessions if the machine spoils one try in four (ordinary work on one core in four).
More than three give up together in fewer than one session in two hundred. A machine that is worse shows nothing."""


AGAIN = "BENTPIPE_SKIPPED_TESTS"
"""Names a file that gets those that gave up, one a line: who named it tries them again alone, and the quota is theirs then."""


def given_up(reporter: pytest.TerminalReporter) -> dict[str, str]:
    """The tests that gave up, each with its reason."""
    found = {}
    for report in reporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if realtime.BUSY in reason:
            found[report.nodeid] = reason.removeprefix("Skipped: ")
    return found


def _reporter(config: pytest.Config) -> pytest.TerminalReporter | None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter if isinstance(reporter, pytest.TerminalReporter) else None


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fails a session of which too little is known."""
    reporter = _reporter(session.config)
    again = os.environ.get(AGAIN)
    if reporter is not None and again:
        Path(again).write_text("".join(f"{one}\n" for one in given_up(reporter)), encoding="utf-8")
    elif reporter is not None and len(given_up(reporter)) > QUOTA and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names those that gave up."""
    found = given_up(terminalreporter)
    if not found:
        return
    again = os.environ.get(AGAIN)
    messages = "and are tried again" if again else f"{QUOTA} may"
    terminalreporter.section(f"{len(found)} gave up on a busy machine, {messages}")
    for one, reason in found.items():
        terminalreporter.line(f"{one}: {reason}")
    if not again and len(found) > QUOTA:
        terminalreporter.line("error: too many to tell this from a fault; run them again, alone", red=True)
