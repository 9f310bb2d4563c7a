"""Nodes and links of a resolved run, and their changes over time.

``constellation_routes``: routes between two places over a constellation
``contact_schedule``: links that follow a contact plan
``graph``: nodes, links, routes of flows, and proxies
``handovers``: changes of links and stages at handovers
``hops``: rate, queue and delay of each direction of a link
``proxies``: TCP sockets of splitting proxies
"""
