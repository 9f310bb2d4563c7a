"""Where ``bentpipe-rt`` is, the executable of everything in real time (crates/rt)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bentpipe.scenario.problems import ScenarioError

__all__ = ["executable"]


def executable() -> Path:
    """Where ``bentpipe-rt`` is: ``$BENTPIPE_RT``, beside the package, in the checkout's build, on the path.

    Raises:
        ScenarioError: nowhere; with the command that builds it.
    """
    package = Path(__file__).parents[1]
    named = os.environ.get("BENTPIPE_RT")
    if named and not Path(named).is_file():
        raise ScenarioError([("BENTPIPE_RT", f'no file "{named}", expected the executable bentpipe-rt')])
    on_path = shutil.which("bentpipe-rt")
    places = [
        *([Path(named)] if named else []),
        package / "bentpipe-rt",
        package.parents[1] / "target" / "release" / "bentpipe-rt",
        *([Path(on_path)] if on_path else []),
    ]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ScenarioError([("", "bentpipe-rt is not built; in a checkout: make rt")])
    return found
