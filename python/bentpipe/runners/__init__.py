"""Where runs run: worker processes of this machine, or a Dask cluster. Plans go in, the engine's bytes come out.

``source`` <- ``engine`` <- ``worker`` <- ``local``, ``dask`` (both with ``hands``); each gives an ``outcome`` of a run.
``conduct`` runs a plan into a store, and a ``session`` is that with somebody who watches. (A room called ``run``
would hide ``bentpipe.run``.)
"""
