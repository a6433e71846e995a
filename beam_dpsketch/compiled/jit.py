"""How kernels are compiled: ahead of their first call, for one type of arguments, and kept on disk where that works.

Guarantee: arithmetic is that of 64-bit integers that wrap around, as numpy's, on every processor. Arrays are checked by
their callers: kernels read and write without looking at bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import types


def reads(dtype: Any) -> Any:
    """Return the type of a contiguous array that is only read."""
    return types.Array(dtype, 1, "C", readonly=True)


def writes(dtype: Any, dimensions: int = 1) -> Any:
    """Return the type of a contiguous array that is written."""
    return types.Array(dtype, dimensions, "C")


def compiled(*signatures: Any) -> Callable[[Any], Any]:
    """Compile a function for these types of arguments, now; each process anew if no folder keeps what is compiled."""

    def compile_now(function: Any) -> Any:
        try:
            return numba.njit([*signatures], cache=True, nogil=True)(function)
        except (OSError, RuntimeError):  # no folder can be written, or what is in it cannot be read
            return numba.njit([*signatures], nogil=True)(function)

    return compile_now


inlined = numba.njit(inline="always")
"""For functions that kernels are made of."""
