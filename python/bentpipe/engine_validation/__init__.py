"""``bentpipe compare-engines``: a scenario on both clocks, flow by flow, with the difference and whether it is within its bound.

``both`` runs (or resumes) the two stores, ``compare`` sets them side by side, within ``tolerance`` and, where flows
belong together, by ``among``, bundles by ``bundles``; ``page``, ``opening`` and ``drawing`` show them,
``standing`` is the table of ``studies/agreement``, ``publish`` the archive of its stores.
"""

from bentpipe.engine_validation.compare import EngineComparison, Row, Verdict, compare_engines

__all__ = ["EngineComparison", "Row", "Verdict", "compare_engines"]
