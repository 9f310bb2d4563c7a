"""Tables of bundle nodes.

- ``nodes``: bundle nodes, flows between them and their routing
- ``generated``: options of convergence layers, from the descriptors of the engine
- ``integrity``: integrity of bundles (RFC 9173)
"""
