"""The exceptions and the warning of the package.

Each exception is also a `ValueError`, so callers may catch the built-in type. No message contains an element value.
"""


class IncompatibleSketchError(ValueError):
    """Two sketches or releases cannot be added, because their specs or statements differ."""


class BudgetExceededError(ValueError):
    """More rho is asked for than the privacy budget has left, or two releases would share one part of it."""


class FormatError(ValueError):
    """Bytes are not a release that a version of this package wrote."""


class WindowingError(ValueError):
    """Under this windowing of the input, a release would not happen exactly once per key and window."""


class ConfigError(ValueError):
    """A setting cannot be used; the message begins with its path, such as `unit.norm.max_norm`."""


class ElementsWarning(UserWarning):
    """Elements may not be what a transform needs: their types are unknown, or values of a sample would be clamped."""
