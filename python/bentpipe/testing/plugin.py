"""What pytest loads where bentpipe is installed: the fixture ``bentpipe_path``, and the option ``--bentpipe-real``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bentpipe.testing.access import Access

__all__ = ["bentpipe_path", "pytest_addoption"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--bentpipe-real``."""
    parser.getgroup("bentpipe").addoption(
        "--bentpipe-real",
        choices=("auto", "must", "never"),
        default="auto",
        help="tests whose path carries real programs: auto skips them where the machine cannot, must lets them fail "
        "there, never skips them",
    )


@pytest.fixture
def bentpipe_path(
    request: pytest.FixtureRequest,
) -> Callable[..., Access]:
    """Makes paths: ``bentpipe_path("geo-konnect")``, of a preset, a scenario's file or the table it would parse to,
    with dotted keys to set as a second argument. What they do is in :class:`bentpipe.testing.access.Access`."""
    from bentpipe.testing.access import Access, EmulationMode

    real = EmulationMode(request.config.getoption("--bentpipe-real"))

    def path(access: str | Mapping[str, Any], settings: Mapping[str, object] | None = None) -> Access:
        return Access(access, settings or {}, real)

    return path
