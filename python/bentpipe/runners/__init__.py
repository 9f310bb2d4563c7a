"""Runners: execute the runs of a plan in worker processes of this host or on a Dask cluster.

Plans go in, the bytes of the engine come out. (A package ``run`` would hide ``bentpipe.run``.)

``user_modules``: user-supplied modules, compiled from source
``engine``: interface to the engine
``worker_process``: program of a worker process
``runner``: protocol of a runner, and the outcome of a run
``worker_pool``: threads that execute runs, and one that processes outcomes
``local``: runs on this host
``dask``: runs on a cluster
``execute``: runs of a plan that its store lacks, with an observer
"""
