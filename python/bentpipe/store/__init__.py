"""The store: a directory of Parquet for each finished run, written whole and read with its checksums.

``schema`` (tables and columns), ``codec`` (the engine's bytes as frames) and ``files`` (whole and checked) <-
``planfile``, ``sql`` <- ``directory`` (the store, and what writes it) <- ``reader`` (what statistics and figures read).
``journal`` is what the machine did meanwhile.
"""
