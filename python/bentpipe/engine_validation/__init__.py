"""Comparison of simulation and emulation of a scenario, flow by flow, with bounds: ``bentpipe compare-engines``.

``run_both``: the two stores of a scenario, run or resumed
``compare``: metrics of both stores, their differences and verdicts
``bounds``: largest allowed difference of each metric, for the equivalence test
``user_shares``: share of each user in the sum of all flows
``bundles``: delivered bundles of dtnperf clients
``page``: HTML page of a comparison
``headline``: first sentence of the page
``figures``: figures of a comparison
``summary_table``: the table of ``studies/agreement``
``archive``: published stores of the table
"""

from bentpipe.engine_validation.compare import EngineComparison, Row, compare_engines

__all__ = ["EngineComparison", "Row", "compare_engines"]
