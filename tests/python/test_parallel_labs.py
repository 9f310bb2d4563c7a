"""Eight labs at once: none fails to stand."""

from __future__ import annotations

import pytest

import parallel_labs
import realtime
from nightly import keep


@pytest.mark.lab
@pytest.mark.parametrize("user", keep(["nobody"], ["root", "nobody"]))
def test_eight_shells_at_once(user: str) -> None:
    realtime.need_root("a machine of its own")
    realtime.need_namespaces("nft", "nsenter", "setpriv")
    with realtime.open_folder() as place:
        assert parallel_labs.shells(8, realtime.program(), place, user=user) == []
