"""Performance of bentpipe itself; not part of the wheel. Run ``python -m benchmarks NAME`` in a checkout.

simulator: packets per CPU second
users: cost of a packet among many users
orbits: satellite steps
channel: mobile channel
planning: planning of large sweeps
emulator: timing of the emulator
sockets: perf over loopback
cli_latency: commands
shell_latency: start of a shell
large_store: stores of 100,000 runs
aimd: a controller in Python
"""
