"""About bentpipe itself: benchmarks, conformance of controllers, an independent check of traced runs."""
