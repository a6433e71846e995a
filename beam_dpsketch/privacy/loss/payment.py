"""Payment for releases: by a budget share, once, or by a ledger account, once for each run."""

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
"""Facts about a release: it pays at the start, for all future records. Its release id names the run."""


class Purpose(abc.ABC):
    """Purpose of a `PrivacySpec` whose spending is counted."""

    @abc.abstractmethod
    def settle(self, release: Any, delta: Fraction) -> None:
        """Pay for a release while it is declared, or raise.

        Args:
          release: identifier. Equal identifiers denote the same release.
          delta: loss by key or item selection.
        """


class Uses:
    """First release per table and pipeline for a spec without a budget, or for settings.

    Args:
      user: name of the spec or the settings in the warning.
      way: advice for spending it once.
    """

    def __init__(
        self, user: str = "The same PrivacySpec is", way: str = "PrivacyBudget(epsilon=1, delta=1e-6).split(2)"
    ) -> None:
        self._user, self._way = user, way
        self._first: dict[int, tuple[Callable[[], Any], Any]] = {}
        self._has_warned = False

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of_settings(_digest: bytes) -> Uses:
        """Look up the uses of equal settings, identified by this digest."""
        return Uses("Equal settings are", "privacy: {epsilon: 1, delta: 1.0e-6, share: 1/2}")

    def note(self, source: Any, release: Any) -> None:
        """Record a release for a table or a pipeline. Warn once if it is the second for the same source."""
        known, first = self._first.get(id(source), (type(None), None))
        if known() is not source:
            with contextlib.suppress(TypeError):  # objects without weak references
                forget = functools.partial(self._first.pop, id(source))
                self._first[id(source)] = weakref.ref(source, forget), release
        elif first != release and not self._has_warned:
            self._has_warned = True
            words = (
                f"{self._user} used for two releases from the same table or pipeline. Each release spends the whole "
                f"loss, and both losses add up. To spend it once, split a budget: {self._way}"
            )
            warnings.warn(words, PrivacyWarning, stacklevel=levels_to_caller())


class OneRelease(Purpose):
    """Purpose of a budget share, which pays for a single release."""

    def __init__(self, take_delta: Callable[[Fraction], None]) -> None:
        self._take_delta = take_delta
        self._lock = threading.Lock()
        self._release: Any = None

    def settle(self, release: Any, delta: Fraction) -> None:
        """Record the release, and spend its delta from the budget, or raise if it is a second release."""
        with self._lock:
            if self._release is None:
                self._take_delta(delta)
                self._release = release
            elif self._release != release:
                raise BudgetExceededError(
                    "",
                    "This PrivacySpec has already paid for another release. Use a spec per transform: budget.split(3)",
                    "E105",
                )


class Bill(Protocol):
    """Cost of a release, and its payer. It goes to workers, hence it contains no open file."""

    def check(self) -> None:
        """Raise if the account cannot pay now, without spending."""

    def pay(self, run: bytes) -> None:
        """Pay durably, or raise. Another payment for a run with the same name is free."""


class Payer(Purpose):
    """Account that pays once for each run, before its noise is drawn, not while the release is declared."""

    @abc.abstractmethod
    def bill(self, loss: Loss, terms: Mapping[str, Any], what: Mapping[str, Any]) -> Bill:
        """Build the bill for a release.

        Args:
          loss: loss of all releases in a run.
          terms: its `privacy_unit` and its `relation`.
          what: plain public facts that are recorded with the payment.
        """

    def settle(self, release: Any, delta: Fraction) -> NoReturn:
        """Raise, because a declared release would not pay when it is made."""
        raise ArgumentError(
            "privacy",
            "must not be a ledger account here, because the account would not be charged before the noise is drawn. "
            "Use a private transform, such as PrivateFrequencies, or release_frame",
            "E131",
        )
