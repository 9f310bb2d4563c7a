"""bentpipe from Python: the same runs, the same store, frames instead of files (docs/manual/python.md).

``planning`` takes a scenario in whatever form, ``own`` classes of one's own, ``checking`` says what follows from it,
``choosing`` says who runs it, ``running`` runs it, ``results`` is what a store gives, ``again`` makes a run of it once
more, with its packets. Their names are here too, loaded
when they are asked for: the command line needs ``planning``, ``own`` and ``choosing`` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bentpipe.api.checking import Checked, check
    from bentpipe.api.own import fingerprint, import_place
    from bentpipe.api.results import Results
    from bentpipe.api.running import Runs, RunsFailed, run, start

_HOME = {
    "Checked": "checking", "check": "checking", "Results": "results", "Runs": "running", "RunsFailed": "running",
    "fingerprint": "own", "import_place": "own", "run": "running", "start": "running",
}  # fmt: skip

__all__ = ["Checked", "Results", "Runs", "RunsFailed", "check", "fingerprint", "import_place", "run", "start"]


def __getattr__(name: str) -> Any:
    """Loads a name when it is asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'bentpipe.api' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"bentpipe.api.{_HOME[name]}"), name)
