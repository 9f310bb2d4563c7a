"""Plug-in of pytest: the fixture ``bentpipe_path`` and the option ``--bentpipe-real``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bentpipe.testing.access import Access

__all__ = ["bentpipe_path", "pytest_addoption"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--bentpipe-real``."""
    parser.getgroup("bentpipe").addoption(
        "--bentpipe-real",
        choices=("auto", "must", "never"),
        default="auto",
        help="tests with real programs: auto skips them on machines that do not support them, must fails them there, "
        "never skips them",
    )


@pytest.fixture
def bentpipe_path(
    request: pytest.FixtureRequest,
) -> Callable[..., Access]:
    """Return a function that creates paths, such as ``bentpipe_path("geo-konnect")``.

    The first argument of the function is a preset, a scenario file, or the table that it parses to. The second has
    dotted keys to set. The path is a :class:`bentpipe.testing.access.Access`.
    """
    from bentpipe.testing.access import Access, EmulationMode

    real = EmulationMode(request.config.getoption("--bentpipe-real"))

    def path(access: str | Mapping[str, Any], settings: Mapping[str, object] | None = None) -> Access:
        return Access(access, settings or {}, real)

    return path
