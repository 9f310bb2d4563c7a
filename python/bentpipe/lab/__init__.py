"""Real programs over an emulated path. A lab is an emulated path: namespaces, links, proxies (PEPs) and processes.

The executable ``bentpipe-rt`` runs a lab.

* ``process_plans``: types of the plans that ``bentpipe-rt`` reads, and their JSON.
* ``plan_validation``: validation of a lab plan before it is sent.
* ``executable``: path of ``bentpipe-rt``.
* ``process``: process of ``bentpipe-rt lab`` from start to end.
* ``requirements``: programs, devices and namespaces that a lab needs.
* ``kernel_tcp``: controllers and options that the kernel's TCP supports.
* ``counters``: counters that a lab recorded, as tables.
* ``call_rows``: results of a call, as table rows.
* ``free_port``: choice of a free port.
* ``background_traffic``: simulated users beside a real command.
* ``access``: path of a lab from a preset or a scenario.
* ``path_check_cache``: cache of path checks.
* ``prompt``: name of the access in the prompt of an interactive shell.
* ``control``: state of a running path, and changes of it.
* ``monitor``: samples of a running path over time.
* ``shell``: any command over an access, and labs in general.
* ``recording``: reader of ``shell --record``.
* ``single_run``: one timed command over an access.
* ``path_summary``: rates and round-trip time of an access in one line.
* ``command_timing``: repeated timing of a command over several access networks.
* ``perf``: QUIC and TCP throughput over real sockets.
* ``perf_recording``: reader of the recordings of ``perf``.
* ``calls``: calls over real sockets.
* ``call_recording``: reader and writer of the recordings of calls.
* ``bundle_node``: bundle node on real sockets.
* ``emulation``: execution of the runs of a plan in emulation (``--engine emu``).
* ``browser``: page loads in Chromium.
"""
