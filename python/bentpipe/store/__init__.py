"""The store: a directory of Parquet for each finished run, written whole and read with its checksums.

``schema`` (tables and columns), ``files`` (whole and checked), ``caches`` (where the user's are) <- ``kept`` (which
runs are there, where), ``journal`` (what the machine did; who has it open may write) <- ``codec`` (the engine's bytes
as frames and files), ``planfile``, ``sql`` (with ``query_limits``), ``scanning`` (a table of many runs),
``numbers`` (swept quantities), ``frames`` (tables as properties) <- ``pack`` (many runs as one directory) <- ``reader``
(the store), ``mending`` (what damaged packs still hold) <- ``writer`` (what fills it), ``packing`` (puts it together),
``export`` (its files for other programs).
"""
