"""Cost of a run: events, memory and time before it starts.

- ``estimate``: cost estimate of a plan and its limits
- ``flow_cost``: cost of one flow
- ``reordering``: number of packets that a packet overtakes
- ``loss_detection``: cost of the scans of a QUIC sender
"""
