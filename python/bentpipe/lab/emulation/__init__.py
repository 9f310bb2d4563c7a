"""The runs of a plan in real time: each a lab, with its measurements in the simulator's tables.

``limits`` (what cannot be), ``arrivals`` (what is drawn beforehand), ``groups`` and ``nodes`` (bundle nodes) <-
``planned`` (a run as a lab); ``frames``, ``called`` (calls), ``linked`` (flows between bundle nodes) <-
``measurements`` (what it recorded, as tables); ``runner`` runs them.
"""
