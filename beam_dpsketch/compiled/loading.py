"""Whether kernels of the extra `fast` do the work of numpy: they must be there, wanted, and worth their start.

Guarantee: results are the same bits with and without them, in any mixture of processes. Without numba nothing is said;
if it is there and fails, one warning is, and numpy goes on.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from typing import Any

from beam_dpsketch.errors import CompiledWarning

VARIABLE = "DPSKETCH_COMPILED"
_MANY = 1 << 26  # steps, of about five nanoseconds in numpy: what it takes to start numba


class Kernels:
    """The module of kernels, loaded once.

    Args:
      wanted: "0" for never, "1" from the first step on, and "" once a process has had many steps.
    """

    def __init__(self, wanted: str) -> None:
        self._few = {"0": None, "1": 0}.get(wanted, _MANY)
        self._steps, self._is_loaded, self._module = 0, False, None
        if wanted not in ("", "0", "1"):
            warnings.warn(f"{VARIABLE} must be 0 or 1, and is neither; it is ignored", CompiledWarning, stacklevel=2)

    def find(self, steps: int) -> Any:
        """Return the module, or `None` where numpy is to take these steps."""
        if self._is_loaded or self._few is None:
            return self._module
        self._steps += steps
        if self._steps >= self._few:
            self._is_loaded, self._module = True, _load()
        return self._module


_of_process: list[Kernels] = []


def use(kernels: Kernels | None) -> Kernels | None:
    """Let this process take other kernels, `None` for those that the variable wants; return what it took before."""
    before = _of_process[0] if _of_process else None
    _of_process[:] = [] if kernels is None else [kernels]
    return before


def find(steps: int) -> Any:
    """Do as `Kernels.find`, for this process."""
    if not _of_process:
        _of_process.append(Kernels(os.environ.get(VARIABLE, "")))
    return _of_process[0].find(steps)


def _load() -> Any:
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        return importlib.import_module("beam_dpsketch.compiled.sums")
    except Exception as error:  # of numba, of LLVM, of the folder of what is compiled: numpy does the same work
        words = f"the extra `fast` cannot be used, so numpy does its work: {type(error).__name__}: {error}"
        warnings.warn(words, CompiledWarning, stacklevel=2)
        return None
