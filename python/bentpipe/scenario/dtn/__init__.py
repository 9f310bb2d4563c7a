"""Tables of bundle nodes.

- ``nodes``: bundle nodes, flows between them and their routing
- ``integrity``: integrity of bundles (RFC 9173)
"""
