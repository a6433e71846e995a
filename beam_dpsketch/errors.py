"""Exceptions and warnings of the package.

Each refusal names its argument and has a code that stays the same in later versions. `docs/errors.md` lists the codes.
Callers may catch the built-in types, because each exception except `ArgumentTypeError` is also a `ValueError`. Messages
contain no element values.
"""

from __future__ import annotations

import copy
import operator
import os
import string
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_MAX_SHOWN = 20
_LIBRARIES = (os.path.dirname(__file__) + os.sep, f"{os.sep}apache_beam{os.sep}")
PYTHON, SETTINGS, SHELL = range(3)
"""Interfaces through which callers reach the package."""
_WAYS: Mapping[str, tuple[str, ...]] = {
    "AssumePublicKeys": ("AssumePublicKeys", "keys.assume_public: true", "--assume-public-keys"),
    "AutoNorm": ("AutoNorm()", "norm: auto", "--max-norm auto"),
    "Thresholding": ("Thresholding", "method.threshold"),
    "KeySelection": ("KeySelection", "keys.select", "--select-keys"),
    "NormBound": ("NormBound", "norm", "--max-norm"),
    "PrivacyId": ("PrivacyId", "privacy_id", "--privacy-id"),
    "PublicKeys": ("PublicKeys", "keys.public", "--public-keys"),
    "Record": ("Record()", "privacy_unit: record", "--privacy-unit record"),
    "RecordBounds": ("RecordBounds", "records", "--max-records"),
    "auto_l1": ('AutoNorm(norm="l1")', "norm: {auto: {norm: l1}}", "--max-norm auto --norm l1"),
    "binned": ('mechanism="binned"', "mechanism: binned"),
    "calendar_key": (
        'keys=PublicKeys(field=Calendar("at", "month", ...))',
        "keys: {field: {time: at, bucket: month, ...}}",
        "--key '{time: at, bucket: month, ...}'",
    ),
    "epsilon_and_delta": (
        "PrivacySpec(epsilon=1, delta=1e-6)",
        "epsilon: 1, delta: 1.0e-6",
        "--epsilon 1 --delta 1e-6",
    ),
    "frequencies": ("PrivateFrequencies", "kind: frequencies", "dpsketch run --kind frequencies"),
    "histogram": ("TreeSpec.histogram(domain)", "layout: histogram"),
    "keys_KeySelection": ("keys=KeySelection(...)", "keys.select", "--select-keys"),
    "keys_of_pairs": ("keys=KeySelection(1e-8)", "keys: {select: {delta: 1.0e-8}, field: page}"),
    "threshold_of_delta": (
        "method=Thresholding(delta=1e-8)",
        "method: {threshold: {delta: 1.0e-8}}",
        "--method '{threshold: {delta: 1.0e-8}}', or --epsilon and --delta instead of --rho",
    ),
    "listed": (
        "Use items from spec.items, or release with a SketchSpec if items are not known beforehand",
        "Use items from the setting listed_items, or omit it if items are not known beforehand",
        "Use items from the counted list, which --top shows",
    ),
    "loss": ("rho=... or epsilon=...", "rho, or epsilon", "--rho, or --epsilon with or without --delta"),
    "max_keys": ("RecordBounds(max_keys=...)", "privacy_unit.records.max_keys", "--max-keys"),
    "max_records": ("RecordBounds(max_records=...)", "privacy_unit.records.max_records", "--max-records"),
    "max_releases": ("max_releases=...", "max_releases", "--max-releases"),
    "method_Thresholding": ("method=Thresholding(...)", "method.threshold"),
    "norm_of_16_keys": ("NormBound(20, max_keys=16)", "norm: {max_norm: 20, max_keys: 16}", "--max-keys 16"),
    "norm_of_b": ("NormBound(b)", "norm: {max_norm: b}", "--max-norm N"),
    "norm_l1": ('NormBound(20, norm="l1")', "norm: {max_norm: 20, norm: l1}", "--max-norm 20 --norm l1"),
    "norm_of_weights": ("NormBound(200, max_weight=100)", "norm: {max_norm: 200, max_weight: 100}"),
    "one_day": ("timedelta(days=1)", "1d"),
    "person_in_30_windows": (
        "PrivacyId('user', RecordBounds(10), max_windows=30)",
        "privacy_unit: {privacy_id: user, records: {max_records: 10}, max_windows: 30}",
    ),
    "person_in_7_days": (
        "PrivacyId('user', NormBound(20), max_windows=7, period=timedelta(days=7))",
        "privacy_unit: {privacy_id: user, norm: {max_norm: 20}, max_windows: 7, period: 7d}",
    ),
    "record_of_weights": (
        "Record(max_weight=100)",
        "record: {max_weight: 100}",
        "--privacy-unit record --max-weight 100",
    ),
    "records_of_2_keys": ("RecordBounds(5, max_keys=2)", "records: {max_records: 5, max_keys: 2}", "--max-keys 2"),
    "records_of_weights": ("RecordBounds(1, max_weight=100)", "records: {max_records: 1, max_weight: 100}"),
    "plan_n": ("n", "n", "--records"),
    "selection_of_pages": ('KeySelection(1e-8, "page")', "keys: {select: {delta: 1.0e-8}, field: page}"),
    "summary_counts": ("PrivacySpec(summary_counts=...)", "privacy.summary_counts"),
    "some_windows": ("timeline.between(first, last)", "windows", "--windows FIRST LAST"),
    "statistics": ("PrivateStatistics", "kind: statistics", "dpsketch run --kind statistics"),
    "top_k": ("PrivateTopK", "kind: top_k", "dpsketch run --kind top_k"),
    "tree": ("TreeSpec.for_memory(domain)", "layout: tree"),
    "privacy_unit_Record": ("privacy_unit=Record()", "privacy_unit: record", "--privacy-unit record"),
    "variance": ("variance=True", "variance: true", "--variance"),
    "windows_TimeRange": ("windows=TimeRange(...)", "windows", "--start and --end"),
    "windows_from_to": ("windows=TimeRange(start, end)", 'windows: {start: "2024-01-01", end: "2024-02-01"}'),
}
"""Spelling of names such as `$NormBound` in messages: in Python, in plain settings and, if different, in the shell."""
_SPELLED = [{name: way[min(door, len(way) - 1)] for name, way in _WAYS.items()} for door in (PYTHON, SETTINGS, SHELL)]
_OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in ("candidates", "confidence", "target_error", "typical")},
    "n": _WAYS["plan_n"][SHELL],
}
"""Command-line options for arguments of answers and plans."""


def ended(words: str) -> str:
    """End a message with a period, unless it ends with a question mark."""
    return words if words.endswith("?") else f"{words}."


class RefusalError(Exception):
    """Base class of all refusals.

    Attributes:
      argument: the refused argument, such as `max_norm` in Python or `privacy_unit.norm.max_norm` in settings. Empty if
        the message contains the name.
      code: error code, such as `E206`. Stable across versions.
    """

    joint: ClassVar[str] = " "
    door: int = PYTHON

    def __init__(self, argument: str, words: str = "", code: str = "") -> None:
        self.argument, self.code, self._template = argument, code, words
        self._all: tuple[RefusalError, ...] = ()
        super().__init__(str(self))  # Beam rebuilds the error from this text and a step name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.argument, self._template, self.code), self.__dict__

    @property
    def words(self) -> str:
        """Problem and fix, in the caller's terms."""
        return string.Template(self._template).safe_substitute(_SPELLED[self.door])

    @property
    def message(self) -> str:
        """Argument and problem, without the code."""
        argument = self.argument
        if self.door == SHELL:
            argument = _OPTIONS.get(argument, argument)
        return self.joint.join(each for each in (argument, self.words) if each)

    @property
    def refusals(self) -> Sequence[RefusalError]:
        """All errors raised together, or a list with this error alone."""
        return self._all or (self,)

    def __str__(self) -> str:
        shown = [
            each.message + f" [dpsketch-{each.code}]" * bool(each._template) for each in self.refusals[:_MAX_SHOWN]
        ]
        more = len(self.refusals) - len(shown)
        return "\n".join([*shown, *([f"and {more} more"] if more else [])])

    def at(self, path: str = "", places: Mapping[str, str] | None = None) -> RefusalError:
        """Rewrite the error in terms of plain settings.

        Args:
          path: path of the block that supplied the arguments. Empty if the arguments have another source.
          places: paths by argument name.
        """
        return together([each._at(path, places or {}) for each in self.refusals])

    def _at(self, path: str, places: Mapping[str, str]) -> RefusalError:
        if self.argument in places:
            return ConfigError(places[self.argument], self._template, self.code)
        if path:
            return ConfigError(path, f"{self.argument} {self._template}".lstrip(), self.code)
        return self.through(SETTINGS)

    def through(self, door: int) -> RefusalError:
        """Rewrite the error in the terms of another interface."""
        changed = copy.copy(self)
        changed.door = door
        return changed


class ArgumentError(RefusalError, ValueError):
    """An argument is out of range or conflicts with another."""


class ArgumentTypeError(RefusalError, TypeError):
    """An argument has an unsupported type."""


class ArgumentsError(ArgumentError, ArgumentTypeError):
    """Several arguments are invalid, some of them by type."""


class WindowingError(RefusalError, ValueError):
    """The windowing does not guarantee exactly 1 release per key and window."""


class BudgetExceededError(RefusalError, ValueError):
    """A request exceeds the remaining rho in the privacy budget, or two releases would use the same share."""


class LedgerError(RefusalError, ValueError):
    """A ledger cannot be read or written, or is damaged. No budget was spent, unless the message reports it."""

    @property
    def is_unreachable(self) -> bool:
        """Whether the ledger is missing, or currently cannot be opened, read or written."""
        return self.code == "E140"


class ConfigError(RefusalError, ValueError):
    """A setting is invalid. The message begins with its path, such as `privacy_unit.norm.max_norm`."""

    joint = ": "
    door = SETTINGS

    def __init__(self, argument: str, words: str = "", code: str = "E805") -> None:
        super().__init__(argument, words, code)

    def _at(self, path: str, places: Mapping[str, str]) -> RefusalError:
        return self


class OneCodeError(RefusalError, ValueError):
    """Refusals with a common code."""

    usual_code: ClassVar[str]

    def __init__(self, words: str) -> None:
        super().__init__("", words, self.usual_code)
        self.args = (words,)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, self.__dict__

    def _at(self, path: str, places: Mapping[str, str]) -> RefusalError:
        return ConfigError(path, self.message, self.code) if path else self

    @classmethod
    def of(cls, error: Exception, said: Callable[[RefusalError], str] = operator.attrgetter("message")) -> RefusalError:
        """Convert another error to this kind, with its text and codes."""
        if not isinstance(error, RefusalError):
            return cls(str(error))
        found = [cls(said(each.through(cls.door))) for each in error.refusals]
        for mine, each in zip(found, error.refusals, strict=True):
            mine.code = each.code
        return together(found)


class UsageError(OneCodeError):
    """A command's arguments or files are invalid."""

    usual_code = "E901"
    door = SHELL


class IncompatibleSketchError(OneCodeError):
    """Two sketches or releases have different specs or statements, and cannot be added."""

    usual_code = "E705"


class FormatError(OneCodeError):
    """Bytes that are not a release written by a version of this package."""

    usual_code = "E702"


class InputWarning(UserWarning):
    """Input types are unknown, or sampled values would be clamped."""


class PrivacyWarning(UserWarning):
    """The privacy parameters give very weak protection or very noisy answers."""


class AllAtOnce:
    """Context manager that collects refusals and raises all of them when the block ends.

    >>> with AllAtOnce() as checks:
    ...     checks.do(int, "3")
    3
    """

    def __init__(self) -> None:
        self._found: list[RefusalError] = []

    def __enter__(self) -> AllAtOnce:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.end()

    def do(self, check: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | None:
        """Call a function and return its result. If it refuses, collect the error and return `None`."""
        try:
            return check(*given, **named)
        except RefusalError as error:
            self.refuse(error)
            return None

    def refuse(self, error: RefusalError) -> None:
        """Collect an error."""
        self._found += error.refusals

    def result(self, found: T | None) -> T:
        """Raise the collected errors, if there are any. Otherwise return this result of `do`."""
        self.end()
        assert found is not None
        return found

    def end(self) -> None:
        """Raise the collected errors, if there are any."""
        if self._found:
            raise together(self._found) from None


def together(found: Sequence[RefusalError]) -> RefusalError:
    """Combine errors into a single error."""
    if len(found) == 1:
        return found[0]
    error = copy.copy(found[0])
    if any(type(each) is not type(error) for each in found):
        error = ArgumentsError(error.argument, error._template, error.code)
    error._all = tuple(found)
    if not isinstance(error, OneCodeError):
        error.args = (str(error),)
    return error


def levels_to_caller() -> int:
    """Count the stack frames from a warning to the code that called Beam or this package (`stacklevel`)."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and any(each in frame.f_code.co_filename for each in _LIBRARIES):
        frame, level = frame.f_back, level + 1
    return level


def said_by(error: Exception) -> str:
    """Extract an error's text, without codes, for use in another message."""
    return "; ".join(each.message for each in error.refusals) if isinstance(error, RefusalError) else str(error)
