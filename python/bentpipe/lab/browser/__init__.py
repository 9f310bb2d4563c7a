"""Page loads in Chromium over an emulated path or a real access network: ``bentpipe browse``.

A browser session (Thomas 2018, section 4.2.4) loads a page several times with one kind of browser. It has a fresh
profile, closes the browser between loads, has no content cache, forces name resolution and blocks QUIC to other hosts.

``chromium``: flags and process of the browser
``privileges``: user and sandbox of the browser
``devtools``: DevTools protocol, which drives the browser (docs/decisions/0020)
``load``: one load of a page and its timings
``har_export``: requests of a load as a HAR file
``capture``: capture of the packets on an interface
``pcapng``: files of captured packets
``capture_connections``: connections of a capture
``spec``: types of a resolved browser session
``sessions``: plan of the sessions of a scenario
``session_lab``: lab of a session
``session_process``: process of a session in the namespace of the client side
``runner``: scheduled sessions in labs or on a real access
``site_load``: one load of a user-supplied site
``site_process``: process that loads such a site
``page_server``: page server alone, for browsers on other machines: ``bentpipe serve``
``tables``: tables of a session for the store
``validity``: notes on the validity of sessions
``split_tcp``: detection of split TCP on a real access
"""
