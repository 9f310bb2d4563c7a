"""About bentpipe itself: benchmarks, ``doctor`` (what of this machine can be used), conformance of controllers, an
independent check of traced runs."""
