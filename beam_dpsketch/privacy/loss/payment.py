"""Who pays for a release: a part of a budget, once, or an account of a ledger, each time that one is made."""

from __future__ import annotations

import abc
import contextlib
import functools
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NoReturn, Protocol

from beam_dpsketch.errors import ArgumentError, BudgetExceededError, PrivacyWarning, levels_to_caller
from beam_dpsketch.privacy.loss.composition import Loss

STREAM, IDEMPOTENT = "is_stream", "is_idempotent"
"""Facts of a release: it pays as it begins, for all records that are still to come; its release id names the run."""


class Purpose(abc.ABC):
    """What a `PrivacySpec` is for, if somebody counts what it spends."""

    @abc.abstractmethod
    def settle(self, release: Any, delta: Fraction) -> None:
        """Pay for a release while it is declared, or raise.

        Args:
          release: names it; equal names are one release.
          delta: what it loses to the choice of keys or items.
        """


class Uses:
    """The first release of each table, and in each pipeline, that a spec of no budget, or settings, were used for.

    Args:
      user: what is used, as the warning calls it.
      way: how to spend it once.
    """

    def __init__(
        self, user: str = "one PrivacySpec is", way: str = "PrivacyBudget(epsilon=1, delta=1e-6).split(2)"
    ) -> None:
        self._user, self._way = user, way
        self._first: dict[int, tuple[Callable[[], Any], Any]] = {}
        self._has_warned = False

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of_settings(_digest: bytes) -> Uses:
        """Return the uses of equal settings, which have this digest."""
        return Uses("equal settings are", "privacy: {share: 1/2, of: {epsilon: 1, delta: 1.0e-6}}")

    def note(self, source: Any, release: Any) -> None:
        """Note a release of a table, or in a pipeline; warn once if it is the second of the same one."""
        known, first = self._first.get(id(source), (type(None), None))
        if known() is not source:
            with contextlib.suppress(TypeError):  # what has no weak references
                forget = functools.partial(self._first.pop, id(source))
                self._first[id(source)] = weakref.ref(source, forget), release
        elif first != release and not self._has_warned:
            self._has_warned = True
            words = (
                f"{self._user} used for two releases of the same table or pipeline. Each of them spends all of "
                "it, and both losses add up for everyone who is in both. To spend it once, split a budget: "
                f"{self._way}"
            )
            warnings.warn(words, PrivacyWarning, stacklevel=levels_to_caller())


class OneRelease(Purpose):
    """The one release that a part of a budget pays for."""

    def __init__(self, take_delta: Callable[[Fraction], None]) -> None:
        self._take_delta = take_delta
        self._lock = threading.Lock()
        self._release: Any = None

    def settle(self, release: Any, delta: Fraction) -> None:
        """Name the release, and take its delta; refuse a second one."""
        with self._lock:
            if self._release is None:
                self._take_delta(delta)
                self._release = release
            elif self._release != release:
                raise BudgetExceededError(
                    "",
                    "this PrivacySpec was taken from a budget and has paid for another release already; take one for "
                    "each transform: budget.spend(...)",
                    "E105",
                )


class Bill(Protocol):
    """What one release costs, and who pays it. It goes to workers, so it holds no open file."""

    def check(self) -> None:
        """Raise if it could not be paid now; nothing is spent."""

    def pay(self, run: bytes) -> None:
        """Pay durably, or raise; a second payment for a run of the same name costs nothing more."""


class Payer(Purpose):
    """An account that pays each time that a release is made, and not while it is declared."""

    @abc.abstractmethod
    def bill(self, loss: Loss, terms: Mapping[str, Any], what: Mapping[str, Any]) -> Bill:
        """Return the bill for a release.

        Args:
          loss: of all that one run releases.
          terms: its `unit` and its `relation`.
          what: plain public facts that are noted with the payment.
        """

    def settle(self, release: Any, delta: Fraction) -> NoReturn:
        """Raise: who asks for this would not pay when the release is made."""
        raise ArgumentError(
            "privacy",
            "must not be of a ledger here, where nothing could pay before the noise; take a private transform, such "
            "as PrivateFrequencies, or release_frame",
            "E131",
        )
