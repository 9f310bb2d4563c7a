"""Background traffic: simulated users who share an access with a real command, as flows of a scenario.

The same flows make a run in simulation and, by ``bentpipe-rt``, one in emulation, so that both can be
compared.
"""

from __future__ import annotations

from typing import Any

from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.user_mix import EXAMPLE, KINDS, count_users, parse_mix

__all__ = ["MIX", "flows"]

MIX = EXAMPLE
"""Default mix: most users load pages, some are in a call, few download."""

MAX_USERS = 1000
"""Maximum number of users."""


def flows(users: int, mix: str) -> list[dict[str, Any]]:
    """Return the flow tables of the users, one for each kind. The users start within a second.

    Args:
        users: number of users.
        mix: mix such as :data:`MIX`.

    Raises:
        ScenarioError: the number or the mix is invalid.
    """
    if not 1 <= users <= MAX_USERS:
        raise ScenarioError(
            [("--background-users", f"found {users}, expected a number from 1 to {MAX_USERS:,}")]
        )
    return [
        {"name": kind, "count": number, "start_jitter": "1 s", **KINDS[kind]}
        for kind, number in count_users(users, parse_mix(mix, "--background-mix")).items()
    ]
