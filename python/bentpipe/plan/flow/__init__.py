"""Flows of a resolved run: loads, transports and congestion controllers.

``controllers``: check of the controllers that a scenario names
``datagrams``: calls, live streams and on-off sources of datagrams
``flow_control``: receive and send windows that do not limit a flow on its path
``flows``: one flow (``FlowSpec``)
``groups``: flows of a ``[[flow]]`` table that has a ``count``
``loads``: streams and random arrivals of data
``pages``: page loads
``quic``: options of QUIC with their defaults
``quic_profiles``: options that a QUIC profile derives from the path
``tcp``: options of TCP with their defaults
"""
