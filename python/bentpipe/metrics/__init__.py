"""Metrics of raw measurements: computation, statistics over seeds, comparison of stores, formatting.

- ``bundles``: bundle counts, goodput and delay of dtnperf clients
- ``call_quality``: R factor and mean opinion score of calls (ITU-T G.107)
- ``censoring``: restricted completion times of transfers that a run's end cut off
- ``change_table``: tables of a comparison as JSON, text and Markdown
- ``compare``: paired t-test, Holm's correction, verdict of metric changes, equivalence test
- ``competition``: directions of runs in which flows share a link at the same time
- ``compute``: metrics of runs, links and cells, by the expressions of the registry
- ``computed_tables``: tables of metrics for SQL and exports
- ``fairness``: Jain's index over time and convergence time
- ``flow_kinds``: metrics of a comparison that only calls, users or bundle clients have
- ``format``: numbers as text, tables and output of commands
- ``groups``: one row for all flows of a group
- ``intervals``: confidence intervals of means and medians
- ``packets``: delay and residual loss of the packets of a direction
- ``perf_samples``: measurements of ``bentpipe perf`` and rates over time
- ``registry``: names, titles, units and expressions of all metrics, such as goodput
- ``samples``: statistics of independent samples
- ``scenario_differences``: keys in which the scenarios of two stores differ
- ``store_comparison``: pairs of values of two stores by cell and seed
- ``store_metrics``: all metrics of a store, of each run and over seeds
- ``summary_table``: tables of ``bentpipe show``
- ``transfers``: streams of a given size, and those that a run's end cuts off
- ``users``: metrics of the users of a shared link
- ``variant_comparison``: verdicts of all pairs of controllers (or other swept words) in each cell
- ``verdicts``: verdicts on published numbers and statements
- ``windows``: goodput in time windows
"""
