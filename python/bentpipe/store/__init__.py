"""The store: a directory of Parquet for each finished run, written whole and read with its checksums.

``schema`` (tables and columns), ``files`` (whole and checked) <- ``codec`` (the engine's bytes as frames and files),
``planfile``, ``sql``, ``scanning`` (a table of many runs), ``numbers`` (swept quantities), ``frames`` (tables as
properties) <- ``reader`` (the store) <- ``writer`` (what fills it), ``export`` (its files for other programs).
``journal`` is what the machine did meanwhile.
"""
