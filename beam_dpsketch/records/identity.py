"""Which transform a release is of, for randomness from a secret: a digest of all that is declared of it.

Guarantee: two transforms have different digests where sketch, terms, keys, windows or the names of fields differ, and
equal ones where all of these are equal, in every process and under every version of Python. No data is in it. What a
function reads has no name that lasts, so functions are not told apart.
"""

from __future__ import annotations

import hashlib
from typing import Any

from beam_dpsketch.hashing.encodings import encode
from beam_dpsketch.privacy.canonical import canonical
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.selectors import Selector

_VERSION = 1
_DIGEST_BYTES = 32


def identify(declaration: Declaration, terms: ReleaseTerms, windows: tuple[int, ...] = ()) -> bytes:
    """Return the digest of a transform, 32 bytes.

    Args:
      declaration: what it releases.
      terms: under which.
      windows: the length of windows, and where they start, in microseconds; none for the global window.
    """
    selectors, limits = declaration.selectors, declaration.windows
    fields = (selectors.item, selectors.weight, selectors.privacy_id, selectors.key)
    public = tuple(sorted(map(encode, declaration.public_keys or ())))
    declared = (
        _VERSION,
        declaration.spec,
        terms.without_budget(),
        (type(declaration.keys).__name__, public),
        tuple(map(_name, fields)),
        windows,
        () if limits is None else (limits.start_micros, limits.end_micros),
    )
    return hashlib.blake2b(canonical(declared), digest_size=_DIGEST_BYTES).digest()


def _name(selector: Selector) -> Any:
    """Return the name of a field, or that it is read by a function."""
    return selector if selector is None or isinstance(selector, str) else ("function",)
