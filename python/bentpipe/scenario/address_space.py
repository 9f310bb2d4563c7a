"""Limit of the address space of the process (``ulimit -v``). If it is too small, Polars calls abort(3)."""

from __future__ import annotations

import ctypes
import os
import resource

__all__ = ["LEAST_BYTES", "confine_threads", "lack_of_address_space"]

LEAST_BYTES = 2_000_000_000
"""Smallest usable limit: Polars, NumPy and the engine reserve 1.4 GB on two processors and use a tenth of it."""

_M_ARENA_MAX = -8
"""``M_ARENA_MAX`` of malloc.h in glibc."""


def lack_of_address_space() -> str:
    """Return the problem of the address space limit of this process; empty if the limit suffices.

    If there is a limit, libraries loaded from now on use one thread, in this process and in its children. Each thread
    reserves some 100 MB.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return ""
    if limit < LEAST_BYTES:
        found, expected = limit / 1e9, LEAST_BYTES / 1e9
        return f"found {found:.2f} GB of address space (ulimit -v), expected at least {expected:g} GB"
    confine_threads()
    return ""


def confine_threads() -> None:
    """Limit Polars, OpenBLAS and malloc(3) to one thread, unless environment variables set other values."""
    for name in ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_ARENA_MAX"):
        os.environ.setdefault(name, "1")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # only glibc has it
        mallopt(_M_ARENA_MAX, 1)
