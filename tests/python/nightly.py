"""The nightly tests: `make test` leaves them to `make test-all`, which runs once a night."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["keep"]


def keep(saved: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Parameters of a test, of which all but those in ``saved`` are nightly."""
    return [value if value in saved else pytest.param(value, marks=pytest.mark.nightly) for value in values]
