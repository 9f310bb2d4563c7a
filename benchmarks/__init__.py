"""Performance of bentpipe itself; not part of the wheel. Run ``python -m benchmarks NAME`` in a checkout.

``simulator``: packets per CPU second
``users``: CPU time per packet by number of users
``orbits``: satellite steps per CPU second
``channel``: steps of a mobile channel, and runs over it
``planning``: planning of large sweeps
``emulator``: accuracy and CPU time of the emulator
``sockets``: ``bentpipe perf`` over loopback
``cli_latency``: duration of commands
``shell_latency``: start of a shell
``large_store``: stores of 100,000 runs
``aimd``: user-supplied controller in Python
"""
