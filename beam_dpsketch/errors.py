"""The exceptions and the warning of the package.

Each exception is also a `ValueError`, so callers may catch the built-in type. No message holds an element value.
"""


class IncompatibleSketchError(ValueError):
    """Two sketches or releases that cannot be added, because their specs or statements differ."""


class BudgetExceededError(ValueError):
    """More rho was asked for than the privacy budget has left, or one part of it was to pay for two releases."""


class FormatError(ValueError):
    """Bytes that no version of this package wrote as a release."""


class WindowingError(ValueError):
    """A windowing of the input under which a release would not happen exactly once per key and window."""


class ElementsWarning(UserWarning):
    """Elements may not be what a transform needs: their types do not tell, or it would clamp values of a sample."""
