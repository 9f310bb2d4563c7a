"""Runners: execute the runs of a plan in worker processes of this host or on a Dask cluster.

Input: plans. Output: the tables of each run as bytes.

``user_modules``: user-supplied modules, compiled from source
``engine``: interface to the engine
``worker_process``: program of a worker process
``runner``: protocol of a runner, and the outcome of a run
``worker_pool``: one thread for each worker process, and one thread that processes outcomes
``local``: runs on this host
``dask``: runs on a cluster
``execute``: execution of the runs of a plan that its store lacks
"""
