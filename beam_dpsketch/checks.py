"""Check arguments: the keyword is the name in the message, and `not value > 0` also refuses NaN."""

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

from beam_dpsketch.errors import AllAtOnce, ArgumentError, ArgumentTypeError

Method = TypeVar("Method", bound=Callable[..., Any])
_MAX_DENOMINATOR = 1 << 20
_SEPARATORS = ",;|\t\n"
_EXAMPLES = {"Domain": "IntegerDomain(0, 100)", "PrivacySpec": "$epsilon_and_delta", "SketchSpec": "SketchSpec()"}


def whole(*, low: int, high: int, **arguments: Any) -> None:
    """Refuse arguments that are not whole numbers in [low, high]."""
    with AllAtOnce() as checks:
        for name, value in arguments.items():
            checks.do(_check_whole, name, value, low, high)


def whole_fields(frozen: Any, *names: str, low: int, high: int) -> None:
    """Check fields of a frozen dataclass like `whole` and make them Python integers; numpy's overflow in arithmetic."""
    with AllAtOnce() as checks:
        for name in names:
            checks.do(_check_whole, name, getattr(frozen, name), low, high)
    for name in names:
        object.__setattr__(frozen, name, int(getattr(frozen, name)))


def open_unit_interval(**arguments: Any) -> None:
    """Refuse arguments that are not numbers in (0, 1)."""
    for name, value in arguments.items():
        _check_number(name, value)
        if not 0 < value < 1:
            raise ArgumentError(name, f"must be greater than 0 and less than 1, got {value}", "E005")


def positive_finite(**arguments: Any) -> None:
    """Refuse arguments that are not finite numbers above 0."""
    for name, value in arguments.items():
        _check_number(name, value)
        if not value > 0 or not _is_finite(value):
            raise ArgumentError(name, f"must be finite and greater than 0, got {value}", "E006")


def one_of(choices: Any, **arguments: Any) -> None:
    """Refuse arguments that are not among the choices."""
    for name, value in arguments.items():
        if value not in choices:
            raise ArgumentError(name, f"must be one of {', '.join(map(repr, choices))}, got {value!r}", "E007")


def instance(*kinds: type, **arguments: Any) -> None:
    """Refuse arguments of other types."""
    for name, value in arguments.items():
        if not isinstance(value, kinds):
            words = " or ".join(kind.__name__ for kind in kinds)
            example = next(
                (f"; give one, as {_EXAMPLES[kind.__name__]}" for kind in kinds if kind.__name__ in _EXAMPLES), ""
            )
            raise ArgumentTypeError(name, f"must be a {words}, got {type(value).__name__}{example}", "E001")


def many(code: str = "E615", **arguments: Any) -> Any:
    """Return the one argument as a list, an array or a column; refuse one text or number, and a table of columns."""
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
    """Return how to make a list of one value, which is not shown: a text with separators may hold several."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    if isinstance(text, str) and any(separator in text for separator in _SEPARATORS):
        return 'make each item a text of its own, as ["a", "b"]'
    return "put it into a list, as [value]"


def exact(**arguments: Any) -> Fraction:
    """Return the one argument, finite and above 0, as the fraction of its shortest decimal spelling (0.1 is 1/10)."""
    (value,) = arguments.values()
    positive_finite(**arguments)
    if isinstance(value, numbers.Rational):
        # numpy integers would survive in a Fraction and overflow in arithmetic.
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(repr(float(value)))


def ratio(**arguments: Any) -> Fraction:
    """Return the one argument as `exact` does, or as the ratio that a float stands for: 1/3 is a third."""
    (given,), value = arguments.values(), exact(**arguments)
    small = value.limit_denominator(_MAX_DENOMINATOR)
    return small if isinstance(given, float) and float(small) == given else value


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like this one, if one is."""
    return next(iter(difflib.get_close_matches(name, [*known], 1)), None)


def did_you_mean(name: str | None) -> str:
    """Ask whether this name was meant; nothing without one."""
    return "" if name is None else f"; did you mean {name!r}?"


def explain_calls(*kinds: type) -> None:
    """Let a call of these classes with wrong arguments show the right call, next to what Python says."""
    for kind in kinds:
        if not issubclass(kind, (BaseException, enum.Enum)) and kind.__init__ is not object.__init__:
            kind.__init__ = explained(kind.__init__)  # type: ignore[method-assign]


def explained(call: Method) -> Method:
    """Let a call of this function, or of the class that it makes, do so; a warning of it is one frame further up."""
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
                    meant = did_you_mean(nearest(unknown[0], signature.parameters))
                    words = f"{unknown[0]!r} is not an argument{meant}"
                name = type(given[0]).__name__ if is_method else call.__name__
                raise ArgumentTypeError("", f"{words}; call {name}{signature}", "E009") from None
            raise

    return checked  # type: ignore[return-value]


def by_keyword(names: str) -> Callable[[Method], Method]:
    """Refuse numbers without a name: whoever writes `PrivacySpec(2)` means epsilon as often as rho."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def checked(self: Any, *unnamed: Any, **named: Any) -> Any:
            if unnamed:
                raise ArgumentTypeError("", f"a number must be given by its name: say {names}", "E114")
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
    except OverflowError:  # an integer or fraction that no float can hold
        return False


def _check_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(name, f"must be a number, got {_number_given(value)}", "E004")


def _number_given(value: Any) -> str:
    return type(value).__name__ + "; write it without quotes, as 1 or 0.5" * isinstance(value, str)
