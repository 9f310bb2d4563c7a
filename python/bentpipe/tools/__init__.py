"""About bentpipe itself: ``bench`` (benchmarks), ``doctor`` (what of this machine can be used), ``conformance`` of
controllers, and ``verify``, an independent check of traced runs.
"""
