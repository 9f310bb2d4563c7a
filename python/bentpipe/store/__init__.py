"""The store: a directory of Parquet for each finished run, written whole and read with its checksums.

``schema`` (tables and columns), ``files`` (whole and checked) <- ``codec`` (the engine's bytes as frames and files),
``planfile``, ``sql``, ``scanning`` (a table of many runs), ``numbers`` (swept quantities), ``frames`` (tables as
properties) <- ``directory`` (the store, and what writes it) <- ``reader`` (what statistics and figures read).
``journal`` is what the machine did meanwhile.
"""
