"""Every loss model, queue discipline and scheduler has a checker for traced runs."""

from __future__ import annotations

import pytest

from bentpipe.runners import engine
from bentpipe.trace_check import disciplines, losses, user_queues

CHECKERS = {
    "loss_models": losses.CHECKERS,
    "queue_disciplines": disciplines.DISCIPLINES,
    "schedulers": user_queues.SCHEDULERS,
}


@pytest.mark.parametrize("kind", CHECKERS)
def test_every_member_names_its_checker(kind: str) -> None:
    assert set(CHECKERS[kind]) == {one["spec_kind"] for one in engine.descriptors()[kind]}
