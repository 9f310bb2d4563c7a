"""bentpipe from Python: the same runs, the same store, frames instead of files (docs/manual/python.md).

``planning`` takes a scenario in whatever form, ``checking`` says what follows from it, ``running`` runs it, ``results``
is what a store gives.
"""

from bentpipe.api.checking import Checked, check
from bentpipe.api.results import Results
from bentpipe.api.running import Runs, RunsFailed, fingerprint, import_place, run, start

__all__ = ["Checked", "Results", "Runs", "RunsFailed", "check", "fingerprint", "import_place", "run", "start"]
