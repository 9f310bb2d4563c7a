"""Emulation of the runs of a plan. Each run is a lab, and its measurements have the simulator's tables.

* ``build``: the lab of a run.
* ``unsupported``: settings that emulation does not support.
* ``random_streams``: random streams of the engine, for starts and arrivals.
* ``bundle_processes``: processes of the bundle nodes of a run.
* ``runner``: runner of the labs.
* ``tables``: tables of a run.
* ``perf_stream``: reader of the JSON streams of ``bentpipe-rt perf``.
* ``call_tables``: tables of calls.
* ``bundle_tables``: tables of bundle nodes and of the flows between them.
* ``group_series``: samples of flow groups.
"""
