"""Bundle nodes of a resolved run.

``integrity``: signatures of bundles and their verification
``nodes``: bundle nodes, links and clients (``DtnSpec``)
"""
