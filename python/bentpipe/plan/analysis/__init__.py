"""Analysis of a plan before it runs.

- ``bounds``: performance bounds of a run
- ``slow_start``: completion time in slow start
- ``lint``: lint warnings
"""
