"""Stages of one direction of a link.

``acm``: adaptive coding and modulation (DVB-S2)
``channel``: radio channels
``channel_parameters``: published parameters of land-mobile-satellite channels
``loss``: loss models
``nr``: 5G NR links
``queues``: queue limits and active queue management
``radio``: link layers with ARQ or HARQ
``reconfiguration``: delay, rate and loss of each reconfiguration interval
``scheduler``: per-user queues and their scheduler
``stages``: all stages in the order of a packet
"""
