"""Blocks in which compiled kernels do the work of numpy, or never do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from beam_dpsketch.compiled import loading
from beam_dpsketch.compiled.loading import Kernels


@contextlib.contextmanager
def _kernels(wanted: str) -> Iterator[Kernels]:
    kernels = Kernels(wanted)
    before = loading.use(kernels)
    try:
        yield kernels
    finally:
        loading.use(before)


def compiled() -> contextlib.AbstractContextManager[Kernels]:
    """Kernels do the work from the first step on."""
    return _kernels("1")


def numpy_only() -> contextlib.AbstractContextManager[Kernels]:
    """Numpy does all of the work."""
    return _kernels("0")


def uses_kernels(kernels: Kernels) -> bool:
    """Whether they were asked for, and were there."""
    return kernels.find(0) is not None
