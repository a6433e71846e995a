"""The exceptions and the warnings of the package.

Each refusal names its argument and has a code that later versions keep; `docs/errors.md` lists them. Each exception but
`ArgumentTypeError` is also a `ValueError`, so callers may catch the built-in types. No message contains an element
value.
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
"""The doors that callers come through."""
_WAYS: Mapping[str, tuple[str, ...]] = {
    "AssumePublicKeys": ("AssumePublicKeys", "keys.assume_public: true", "--assume-public-keys"),
    "AutoNorm": ("AutoNorm()", "norm: auto", "--max-norm auto"),
    "Groups": ("Groups", "method.groups"),
    "KeySelection": ("KeySelection", "keys.select", "--select-keys"),
    "NormBound": ("NormBound", "norm", "--max-norm"),
    "PrivacyId": ("PrivacyId", "privacy_id", "--privacy-id"),
    "PublicKeys": ("PublicKeys", "keys.public", "--public-keys"),
    "Record": ("Record()", "unit: record", "--unit record"),
    "RecordBounds": ("RecordBounds", "records", "--max-per-key"),
    "auto_of_order_1": ("AutoNorm(order=1)", "norm: {auto: {order: 1}}", "--max-norm auto --order 1"),
    "binned": ('mechanism="binned"', "mechanism: binned"),
    "epsilon_and_delta": (
        "PrivacySpec(epsilon=1, delta=1e-6)",
        "epsilon: 1, delta: 1.0e-6",
        "--epsilon 1 --delta 1e-6",
    ),
    "frequencies": ("PrivateFrequencies", "kind: frequencies", "--kind frequencies"),
    "histogram": ("TreeSpec.histogram(domain)", "layout: histogram"),
    "keys_KeySelection": ("keys=KeySelection(...)", "keys.select", "--select-keys"),
    "keys_of_pairs": ("keys=KeySelection(1e-8)", "keys: {select: {delta: 1.0e-8}, field: page}"),
    "groups_of_delta": (
        "method=Groups(delta=1e-8)",
        "method: {groups: {delta: 1.0e-8}}",
        "method: {groups: {delta: 1.0e-8}} in a file of --config, or --epsilon and --delta in place of --rho",
    ),
    "listed": (
        "ask for those in spec.items, or count with a SketchSpec where items are not known beforehand",
        "ask for those in the setting items, or leave items out where they are not known beforehand",
        "ask for those of the list that was counted, which --top shows",
    ),
    "loss": ("rho=... or epsilon=...", "rho, or epsilon", "--rho, or --epsilon with or without --delta"),
    "max_releases": ("max_releases=...", "max_releases", "--max-releases"),
    "method_Groups": ("method=Groups(...)", "method.groups"),
    "norm_of_16_keys": ("NormBound(20, max_keys=16)", "norm: {max_norm: 20, max_keys: 16}", "--max-keys 16"),
    "norm_of_b": ("NormBound(b)", "norm: {max_norm: b}", "--max-norm N"),
    "norm_of_order_1": ("NormBound(20, order=1)", "norm: {max_norm: 20, order: 1}", "--max-norm 20 --order 1"),
    "norm_of_weights": ("NormBound(10, max_weight=100)", "norm: {max_norm: 10, max_weight: 100}"),
    "one_day": ("timedelta(days=1)", "1d"),
    "person_in_30_windows": (
        "PrivacyId('user', RecordBounds(10), max_windows=30)",
        "unit: {privacy_id: user, records: {max_per_key: 10}, max_windows: 30}",
    ),
    "person_in_7_days": (
        "PrivacyId('user', NormBound(20), max_windows=7, period=timedelta(days=7))",
        "unit: {privacy_id: user, norm: {max_norm: 20}, max_windows: 7, period: 7d}",
    ),
    "record_of_weights": ("Record(max_weight=100)", "record: {max_weight: 100}", "--unit record --max-weight 100"),
    "records_of_2_keys": ("RecordBounds(5, max_keys=2)", "records: {max_per_key: 5, max_keys: 2}", "--max-keys 2"),
    "records_of_weights": ("RecordBounds(1, max_weight=100)", "records: {max_per_key: 1, max_weight: 100}"),
    "selection_of_pages": ('KeySelection(1e-8, "page")', "keys: {select: {delta: 1.0e-8}, field: page}"),
    "side_counters": ("PrivacySpec(side_counters=...)", "privacy.side_counters"),
    "some_windows": ("timeline.between(first, last)", "windows", "--windows FIRST LAST"),
    "statistics": ("PrivateStatistics", "kind: statistics", "--kind statistics"),
    "top_k": ("PrivateTopK", "kind: top_k", "--kind top_k"),
    "tree": ("TreeSpec.for_memory(domain)", "layout: tree"),
    "unit_Record": ("unit=Record()", "unit: record", "--unit record"),
    "variance": ("variance=True", "variance: true", "--variance"),
    "windows_TimeRange": ("windows=TimeRange(...)", "windows", "--start and --end"),
    "windows_from_to": ("windows=TimeRange(start, end)", 'windows: {start: "2024-01-01", end: "2024-02-01"}'),
}
"""What messages name as `$NormBound`: how Python, plain settings and, if it is another way, the shell spell it."""
_SPELLED = [{name: way[min(door, len(way) - 1)] for name, way in _WAYS.items()} for door in (PYTHON, SETTINGS, SHELL)]
_OPTIONS = ("candidates", "confidence", "n", "typical", "wanted_error")
"""Arguments of answers and plans that are options of the command."""


class RefusalError(Exception):
    """What all refusals have in common.

    Attributes:
      argument: what is refused, in the words of the door: `max_norm` in Python, `unit.norm.max_norm` in settings; empty
        if the message names it.
      code: what is wrong, as `E206`; the same in all versions.
    """

    joint: ClassVar[str] = " "
    door: int = PYTHON

    def __init__(self, argument: str, words: str = "", code: str = "") -> None:
        self.argument, self.code, self._template = argument, code, words
        self._all: tuple[RefusalError, ...] = ()
        super().__init__(str(self))  # Beam makes the error anew of this text and the name of a step

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.argument, self._template, self.code), self.__dict__

    @property
    def words(self) -> str:
        """What is said of the argument, in the words of the door."""
        return string.Template(self._template).safe_substitute(_SPELLED[self.door])

    @property
    def message(self) -> str:
        """The argument and the words, without the code."""
        argument = self.argument
        if self.door == SHELL and argument in _OPTIONS:
            argument = f"--{argument.replace('_', '-')}"
        return self.joint.join(each for each in (argument, self.words) if each)

    @property
    def refusals(self) -> Sequence[RefusalError]:
        """All that was refused at once; of one, itself."""
        return self._all or (self,)

    def __str__(self) -> str:
        shown = [
            each.message + f" [dpsketch-{each.code}]" * bool(each._template) for each in self.refusals[:_MAX_SHOWN]
        ]
        more = len(self.refusals) - len(shown)
        return "\n".join([*shown, *([f"and {more} more"] if more else [])])

    def at(self, path: str = "", places: Mapping[str, str] | None = None) -> RefusalError:
        """Return the same in the words of plain settings.

        Args:
          path: where the block is that arguments were read from; empty if it was refused elsewhere.
          places: paths by the names of arguments.
        """
        return together([each._at(path, places or {}) for each in self.refusals])

    def _at(self, path: str, places: Mapping[str, str]) -> RefusalError:
        if self.argument in places:
            return ConfigError(places[self.argument], self._template, self.code)
        if path:
            return ConfigError(path, f"{self.argument} {self._template}".lstrip(), self.code)
        return self.through(SETTINGS)

    def through(self, door: int) -> RefusalError:
        """Return the same in the words of this door."""
        changed = copy.copy(self)
        changed.door = door
        return changed


class ArgumentError(RefusalError, ValueError):
    """An argument cannot be used: it is out of range, or does not go with another one."""


class ArgumentTypeError(RefusalError, TypeError):
    """An argument is of a type that is not taken."""


class ArgumentsError(ArgumentError, ArgumentTypeError):
    """Several arguments are refused at once, some of them for their types."""


class WindowingError(RefusalError, ValueError):
    """Under this windowing of the input, a release would not happen exactly once per key and window."""


class BudgetExceededError(RefusalError, ValueError):
    """More rho is asked for than the privacy budget has left, or two releases would share one part of it."""


class LedgerError(RefusalError, ValueError):
    """A ledger cannot be read or written, or is not what was written; nothing was spent where nothing else is said."""

    @property
    def is_unreachable(self) -> bool:
        """Whether the ledger is not there, or cannot be opened, read or written now."""
        return self.code == "E140"


class ConfigError(RefusalError, ValueError):
    """A setting cannot be used; the message begins with its path, such as `unit.norm.max_norm`."""

    joint = ": "
    door = SETTINGS

    def __init__(self, argument: str, words: str = "", code: str = "E805") -> None:
        super().__init__(argument, words, code)

    def _at(self, path: str, places: Mapping[str, str]) -> RefusalError:
        return self


class OneCodeError(RefusalError, ValueError):
    """Refusals that have one code for all of their kind."""

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
        """Return refusals of this kind that say what another error does, in these words, with its codes."""
        if not isinstance(error, RefusalError):
            return cls(str(error))
        found = [cls(said(each.through(cls.door))) for each in error.refusals]
        for mine, each in zip(found, error.refusals, strict=True):
            mine.code = each.code
        return together(found)


class UsageError(OneCodeError):
    """Arguments or files are not what a command takes."""

    usual_code = "E901"
    door = SHELL


class IncompatibleSketchError(OneCodeError):
    """Two sketches or releases cannot be added, because their specs or statements differ."""

    usual_code = "E705"


class FormatError(OneCodeError):
    """Bytes are not a release that a version of this package wrote."""

    usual_code = "E702"


class ElementsWarning(UserWarning):
    """Elements may not be what a transform needs: their types are unknown, or values of a sample would be clamped."""


class PrivacyWarning(UserWarning):
    """The privacy parameters give very weak protection or very noisy answers."""


class AllAtOnce:
    """Collect what checks refuse, and raise all of it when the block ends.

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
        """Return what a function returns; keep what it refuses, and return `None`."""
        try:
            return check(*given, **named)
        except RefusalError as error:
            self.refuse(error)
            return None

    def refuse(self, error: RefusalError) -> None:
        """Keep what is refused."""
        self._found += error.refusals

    def end(self) -> None:
        """Raise what was refused, if anything was."""
        if self._found:
            raise together(self._found) from None


def together(found: Sequence[RefusalError]) -> RefusalError:
    """Return one error that says all."""
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
    """Return how far up the code is that called Beam or this package, as the `stacklevel` of a warning."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and any(each in frame.f_code.co_filename for each in _LIBRARIES):
        frame, level = frame.f_back, level + 1
    return level


def said_by(error: Exception) -> str:
    """Return what an error says, without codes, as a part of another message."""
    return "; ".join(each.message for each in error.refusals) if isinstance(error, RefusalError) else str(error)
