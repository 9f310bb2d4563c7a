"""The address space that a process may have (``ulimit -v``): too little ends Polars by abort(3), not by an error."""

from __future__ import annotations

import ctypes
import os
import resource

__all__ = ["LEAST_BYTES", "confine_threads", "lack_of_address_space"]

LEAST_BYTES = 2_000_000_000
"""Polars, NumPy and the engine reserve 1.4 GB on two processors, of which they use a tenth."""

_M_ARENA_MAX = -8
"""malloc.h of glibc."""


def lack_of_address_space() -> str:
    """Return what is wrong with the limit of this process' address space; empty where it is enough.

    Where there is a limit, libraries that are loaded from now on, here and in processes that this one starts, make do
    with one thread: each thread reserves some 100 MB.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return ""
    if limit < LEAST_BYTES:
        has, needs = limit / 1e9, LEAST_BYTES / 1e9
        return f"found {has:.2f} GB of address space (ulimit -v), expected at least {needs:g} GB"
    confine_threads()
    return ""


def confine_threads() -> None:
    """Have Polars, OpenBLAS and malloc(3) make do with one thread's memory, unless the environment says otherwise."""
    for name in ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_ARENA_MAX"):
        os.environ.setdefault(name, "1")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # another C library has none
        mallopt(_M_ARENA_MAX, 1)
