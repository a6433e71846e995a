"""Differentially private linear sketches for Apache Beam, frames and files: frequencies, top-K lists, quantiles."""

import typing as _typing
from importlib import import_module as _import
from importlib import util as _util

from beam_dpsketch import starting as _starting  # before slow imports

if _typing.TYPE_CHECKING:
    from beam_dpsketch.names import *  # noqa: F403
else:

    def __getattr__(name: str) -> _typing.Any:
        """Import a module, or all public names when the first is used, because they need large libraries."""
        module = _util.find_spec(f".{name}", __name__)
        if module and module.origin:  # not a folder that another version left behind
            return _import(f".{name}", __name__)
        names = _import(".names", __name__)
        globals().update({each: getattr(names, each) for each in ["__all__", *names.__all__]})
        if name in globals():
            return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=names)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
