"""Transforms of one name: over all elements, or for each key."""

from __future__ import annotations

from typing import NoReturn


class Family(type):
    """Metaclass of a namespace of transforms, which is not called itself."""

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        members = " or ".join(f"{cls.__name__}.{name}(...)" for name in ("Globally", "PerKey") if hasattr(cls, name))
        raise TypeError(f"{cls.__name__} names several transforms: use {members}")
