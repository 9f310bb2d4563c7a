"""Tables of the network: paths, graphs, orbits and contact plans.

- ``topology``: paths and graphs
- ``orbit``: route between two places over a constellation
- ``constellations``: constellations and their presets
- ``places``: places on the ground
- ``contact_plan``: contact plans
"""
