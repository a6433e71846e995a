"""Argument checks. The keyword is the name in the message, and `not value > 0` also rejects NaN."""

from __future__ import annotations

import difflib
import enum
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from beam_dpsketch.errors import AllAtOnce, ArgumentError, ArgumentTypeError, ended

Method = TypeVar("Method", bound=Callable[..., Any])
_MAX_DENOMINATOR = 1 << 20
MAX_TEXT = 500
_SEPARATORS = ",;|\t\n"
RENAMED = {
    "factor": "factorization",
    "groups": "threshold",
    "items": "listed_items",
    "largest": "top_items",
    "lost": "clipping",
    "max_contributions_per_partition": "$max_records",
    "max_partitions_contributed": "$max_keys",
    "max_per_key": "max_records",
    "n": "records",
    "order": "norm",
    "public_partitions": "$PublicKeys",
    "relative": "relative_step",
    "resolution": "step",
    "resource_limit": "max_distinct_items",
    "side_counters": "summary_counts",
    "spend": "share",
    "typical": "rarer_items",
    "unit": "privacy_unit",
    "wanted_error": "target_error",
}
"""Names of settings, options and arguments by their old names and by names in PipelineDP, for hints."""
_EXAMPLES = {"Domain": "IntegerDomain(0, 100)", "PrivacySpec": "$epsilon_and_delta", "SketchSpec": "SketchSpec()"}


def whole(*, low: int, high: int, **arguments: Any) -> None:
    """Require whole numbers in [low, high]."""
    with AllAtOnce() as checks:
        for name, value in arguments.items():
            checks.do(_check_whole, name, value, low, high)


def whole_fields(frozen: Any, *names: str, low: int, high: int) -> None:
    """Require whole numbers in frozen dataclass fields. Make them Python integers, because numpy integers overflow."""
    with AllAtOnce() as checks:
        for name in names:
            checks.do(_check_whole, name, getattr(frozen, name), low, high)
    for name in names:
        object.__setattr__(frozen, name, int(getattr(frozen, name)))


def open_unit_interval(**arguments: Any) -> None:
    """Require numbers in (0, 1)."""
    for name, value in arguments.items():
        _check_number(name, value)
        if not 0 < value < 1:
            raise ArgumentError(name, f"must be greater than 0 and less than 1, got {value}", "E005")


def positive_finite(**arguments: Any) -> None:
    """Require finite numbers above 0."""
    for name, value in arguments.items():
        _check_number(name, value)
        if not value > 0 or not _is_finite(value):
            raise ArgumentError(name, f"must be finite and greater than 0, got {value}", "E006")


def real(**arguments: Any) -> float:
    """Convert the only argument, a number, to a float. Numbers beyond the range of floats become infinite."""
    ((name, value),) = arguments.items()
    _check_number(name, value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def one_of(choices: Any, **arguments: Any) -> None:
    """Require one of the choices."""
    for name, value in arguments.items():
        if value not in choices:
            raise ArgumentError(name, f"must be one of {', '.join(map(repr, choices))}, got {value!r}", "E007")


def instance(*kinds: type, **arguments: Any) -> None:
    """Require arguments of these types."""
    for name, value in arguments.items():
        if not isinstance(value, kinds):
            words = " or ".join(kind.__name__ for kind in kinds)
            example = next(
                (f". Use one such as {_EXAMPLES[kind.__name__]}" for kind in kinds if kind.__name__ in _EXAMPLES), ""
            )
            article = "an" if words[0] in "AEIOU" else "a"
            raise ArgumentTypeError(
                name, f"must be {article} {words}, got {type(value).__name__}{example or as_key(value)}", "E001"
            )


def short_text(**arguments: Any) -> None:
    """Require a printable line of text with at most 500 characters."""
    for name, text in arguments.items():
        instance(str, **{name: text})
        if len(text) > MAX_TEXT or not text.isprintable():
            raise ArgumentError(name, f"must be a single line of at most {MAX_TEXT} characters", "E146")


def as_key(value: Any) -> str:
    """Advise to shorten the unit of a duration, or to use a calendar, or text that names its buckets, as a key."""
    words = value.strip(" 0123456789").lower().removesuffix("s") if isinstance(value, str) else type(value).__name__
    if words in ("second", "minute", "hour", "day", "week") and (number := value.lower().split(words[0])[0].strip()):
        return f". Write {number}{words[0]}"
    advice = ". Use calendar buckets as an output key, such as $calendar_key"
    return advice * (words in ("Calendar", "hour", "day", "week", "month", "year"))


def many(code: str = "E615", **arguments: Any) -> Any:
    """Convert the argument to a list, an array or a column. Reject a single text or number, and a table."""
    ((name, values),) = arguments.items()
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    is_table, is_scalar = hasattr(values, "columns"), isinstance(values, np.ndarray) and not values.ndim
    if is_table or is_scalar or isinstance(values, (str, bytes)) or not isinstance(values, (Iterable, pa.Array)):
        got = "one text" if isinstance(values, (str, bytes)) else type(values).__name__
        fix = "pass one of its columns" if is_table else in_list(values)
        raise ArgumentTypeError(name, f"must be a list, got {got}; {fix}", code)
    return values if isinstance(values, (np.ndarray, pa.Array)) else list(values)


def in_list(value: Any) -> str:
    """Explain how to make a list from a value, without its data. A text with separators may contain several items."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    if isinstance(text, str) and any(separator in text for separator in _SEPARATORS):
        return 'pass each item as a separate text, such as ["a", "b"]'
    return "put it in a list: [value]"


def exact(**arguments: Any) -> Fraction:
    """Convert the argument, finite and above 0, to the fraction of its shortest decimal spelling (0.1 is 1/10)."""
    (value,) = arguments.values()
    positive_finite(**arguments)
    if isinstance(value, numbers.Rational):
        # numpy integers would survive in a Fraction and overflow in arithmetic.
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(repr(float(value)))


def ratio(**arguments: Any) -> Fraction:
    """Convert the argument like `exact`, but a float to the simple ratio that it represents: 1/3 is a third."""
    (given,), value = arguments.values(), exact(**arguments)
    small = value.limit_denominator(_MAX_DENOMINATOR)
    return small if isinstance(given, float) and float(small) == given else value


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that is most similar to this name, or `None`."""
    return next(iter(difflib.get_close_matches(name, [*known], 1)), None)


def nearest_setting(name: str, known: Iterable[str]) -> str | None:
    """Find the new name of a renamed setting, option or argument, or the most similar known name."""
    names = [*known]
    renamed = RENAMED.get(name, "")
    return renamed if renamed in names or renamed.startswith("$") else nearest(name, names)


def did_you_mean(name: str | None) -> str:
    """Format a suggestion, empty without a name."""
    return "" if name is None else f". Did you mean {name!r}?"


def explain_calls(*kinds: type) -> None:
    """Add the signature to errors from calls of these classes with wrong arguments."""
    for kind in kinds:
        if not issubclass(kind, (BaseException, enum.Enum)) and kind.__init__ is not object.__init__:
            kind.__init__ = explained(kind.__init__)  # type: ignore[method-assign]


def explained(call: Method) -> Method:
    """Add the signature to errors from wrong arguments. Warnings in the call need a stacklevel higher by 1."""
    parameters = [each.replace(annotation=each.empty) for each in inspect.signature(call).parameters.values()]
    is_method = call.__name__ == "__init__"
    parameters = parameters[is_method:]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)

    @functools.wraps(call)
    def checked(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except ArgumentTypeError:
            raise
        except TypeError:
            signature = inspect.Signature(parameters)
            try:
                signature.bind(*given[is_method:], **named)
            except TypeError as error:
                words, unknown = str(error), [name for name in named if name not in signature.parameters]
                if unknown and not takes_any:
                    meant = did_you_mean(nearest_setting(unknown[0], signature.parameters))
                    words = f"{unknown[0]!r} is not an argument{meant}"
                name = type(given[0]).__name__ if is_method else call.__name__
                raise ArgumentTypeError("", f"{ended(words)} Call {name}{signature}", "E009") from None
            raise

    return checked  # type: ignore[return-value]


def by_keyword(names: str) -> Callable[[Method], Method]:
    """Reject positional numbers, because `PrivacySpec(2)` may mean epsilon or rho."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def checked(self: Any, *unnamed: Any, **named: Any) -> Any:
            if unnamed:
                raise ArgumentTypeError("", f"Positional arguments are ambiguous here. Write {names}", "E114")
            return method(self, **named)

        return checked  # type: ignore[return-value]

    return decorate


def _check_whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ArgumentTypeError(name, f"must be a whole number, got {_number_given(value)}", "E002")
    if not low <= int(value) <= high:
        raise ArgumentError(name, f"must be between {low} and {high}, got {value}", "E003")


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer or fraction above the largest float
        return False


def _check_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(name, f"must be a number, got {_number_given(value)}", "E004")


def _number_given(value: Any) -> str:
    return type(value).__name__ + ". Write it without quotes, such as 1 or 0.5" * isinstance(value, str)
