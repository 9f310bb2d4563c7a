"""Path of ``bentpipe-rt``, the executable of emulation and of real sockets (crates/rt)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.package_data import path_of

__all__ = ["executable"]


def executable() -> Path:
    """Return the path of ``bentpipe-rt``: ``$BENTPIPE_RT``, in the package or checkout, or on ``$PATH``.

    Raises:
        ScenarioError: there is none; the message names the command that builds it.
    """
    configured = os.environ.get("BENTPIPE_RT")
    if configured and not Path(configured).is_file():
        raise ScenarioError([("BENTPIPE_RT", f'no file "{configured}", expected the executable bentpipe-rt')])
    path = configured or path_of("bentpipe-rt") or shutil.which("bentpipe-rt")
    if path is None:
        raise ScenarioError([("", "bentpipe-rt is not built; in a checkout: make rt")])
    return Path(path)
