"""Bundle nodes of a resolved run.

``bundle_paths``: flows that the bundles of each client will use
``integrity``: signatures of bundles and their verification
``nodes``: bundle nodes, links and clients (``DtnSpec``)
"""
