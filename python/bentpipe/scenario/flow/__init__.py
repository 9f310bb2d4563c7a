"""Tables of flows: transports, loads and proxies.

- ``quic``: options of QUIC
- ``tcp``: options of TCP
- ``proxy``: splitting proxies (PEPs)
- ``datagrams``: calls, live streams and on-off sources; options of UDP
- ``codecs``: speech codecs
- ``page_load``: loads of web pages
- ``perf_string``: scenario strings of pico-perf
"""
