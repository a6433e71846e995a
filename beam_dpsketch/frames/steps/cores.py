"""Exact sums of a large table on several cores, in threads, because numpy and Arrow release Python's lock.

Guarantee: results are the same, in the same order, for every number of cores. The calling thread alone pays, draws
noise and writes messages, and raises the errors of other threads.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from beam_dpsketch.exact.bounding.parts import Task

_MOST = 2
"""Limit of threads, because each needs the memory for one part."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Cores(ThreadPoolExecutor):
    """Threads for the available cores. They start with the first task of `run_behind`, so not for small tables."""

    def __init__(self) -> None:
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._count = min(count, _MOST)
        self._last: Future[object] | None = None
        super().__init__(self._count, thread_name_prefix="exact-sums")

    def run_behind(self, task: Task) -> None:
        """Run a task while the caller goes on, after all earlier tasks."""
        if self._count == 1:
            task()
            return
        self.wait()
        self._last = self._start(task)

    def wait(self) -> None:
        """Wait for the task of `run_behind`, and raise its error."""
        if self._last is not None:
            self._last.result()

    def in_order(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Yield the result for each item. One item is ready for the next free thread, to save memory."""
        if self._last is None:
            yield from map(function, items)
            return
        waiting: deque[Future[_Result]] = deque()
        for item in items:
            if len(waiting) == self._count:
                yield waiting.popleft().result()
            waiting.append(self._start(function, item))
        yield from (each.result() for each in waiting)

    def _start(self, function: Callable[..., _Result], *given: object) -> Future[_Result]:
        """Start a task. After the main thread ends, no thread can start, and the caller runs the task."""
        if threading.main_thread().is_alive():
            return self.submit(function, *given)
        done: Future[_Result] = Future()
        done.set_result(function(*given))
        return done
