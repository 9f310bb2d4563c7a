"""Where ``bentpipe-rt`` is, the executable of everything in real time (crates/rt)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.package_data import path_of

__all__ = ["executable"]


def executable() -> Path:
    """Where ``bentpipe-rt`` is: ``$BENTPIPE_RT``, in the package or the checkout's build, on the path.

    Raises:
        ScenarioError: nowhere; with the command that builds it.
    """
    named = os.environ.get("BENTPIPE_RT")
    if named and not Path(named).is_file():
        raise ScenarioError([("BENTPIPE_RT", f'no file "{named}", expected the executable bentpipe-rt')])
    found = named or path_of("bentpipe-rt") or shutil.which("bentpipe-rt")
    if found is None:
        raise ScenarioError([("", "bentpipe-rt is not built; in a checkout: make rt")])
    return Path(found)
