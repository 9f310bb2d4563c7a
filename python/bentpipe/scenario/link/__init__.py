"""Tables of one direction of a link.

- ``direction``: all stages of a direction: rate, queue, delay, loss, jitter, outages
- ``generated``: loss models, queue disciplines, schedulers and channels, from the descriptors of the engine
- ``generated_services``: link layers and other services, from the descriptors of the engine
- ``rules``: validation of generated tables that concerns several keys
- ``hooks``: functions by which the planner completes generated tables
- ``scheduler``: scheduler of a link with one queue per user
- ``channel``: radio channel
- ``acm``: adaptive coding and modulation
- ``arq``: codes, retransmissions and reordering of a radio link
- ``nr``: 5G link
- ``reconfiguration``: reconfiguration intervals of a constellation
- ``handover``: handovers of a path or graph
"""
