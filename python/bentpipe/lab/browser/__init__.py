"""``bentpipe browse``: pages in a real Chromium, behind an emulated access or on a real one.

A unit (Thomas 2018, section 4.2.4) loads a page several times with one kind of browser: fresh profile, browser closed
between loads, no content cache, forced name resolution, QUIC to others blocked. In the order of reading:

- ``chromium``, ``privileges``, ``devtools``: the browser's flags and its process; the user that it runs as; the
  protocol that drives it (docs/decisions/0020)
- ``loading``, ``archive``: one load and its timings; its requests as a HAR file
- ``capture``, ``pcapng``, ``connections``: what crosses the client's interface, as a file and as connections
- ``unit``: the process in the near namespace that makes one unit
- ``planned``, ``far``: from a scenario to units (``spec`` has their types), and what a unit's lab is
- ``runner``: units there, or on a real access, when they are due
- ``visit``, ``site``: one load of a site of one's own; what became of it
- ``serving``: the far end alone, for browsers on other machines
- ``measurements``: a unit as the tables of a store
- ``doubts``: what to know of the units of a store
- ``split``: whether TCP is split on a real access, and where
"""
