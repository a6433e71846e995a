"""Random bytes derived from a secret: equal for equal messages, unrelated for different messages.

Guarantee: computational. Without the secret, distinguishing the bytes for different messages from independent uniform
bytes requires breaking HMAC-SHA256 (a pseudorandom function of the message, Bellare 2006) or AES-256 in counter mode
(which expands its output, NIST SP 800-38A). Noise made from these bytes is private only under this assumption.

Uniform random words for the exact samplers, from bytes of any source.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from fractions import Fraction
from numbers import Integral, Rational
from typing import ClassVar, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from beam_dpsketch.encodings import encode
from beam_dpsketch.errors import ArgumentError

RandomBytes = Callable[[int], bytes]
"""Function that returns a given number of independent uniform bytes."""

WORD_BITS = 64


def check_size(size: int) -> int:
    """Validate a number of draws."""
    if not isinstance(size, Integral) or isinstance(size, bool) or size < 0:
        raise ValueError(f"size must be an integer >= 0, got {size!r}")
    return int(size)


def check_parameter(name: str, value: Fraction, least: Fraction, most: Fraction) -> Fraction:
    """Convert a sampler parameter to an exact fraction, or raise if it is out of range."""
    # A float is refused: 0.3 could mean 3/10 or the nearest double, but the privacy statement is exact.
    if isinstance(value, Rational) and not isinstance(value, bool):
        # numpy integers would survive in a Fraction and overflow in the tables.
        exact = Fraction(int(value.numerator), int(value.denominator))
        if least <= exact <= most:
            return exact
    raise ValueError(f"{name} must be a Fraction between {least} and 2**{int(most).bit_length() - 1}, got {value!r}")


def random_words(count: int, random_bytes: RandomBytes, bits: int = WORD_BITS) -> NDArray[np.unsignedinteger]:
    """Draw words with 64 or 32 uniform bits."""
    word = np.dtype(f"u{bits // 8}")
    # The byte order is fixed so that the same bytes give the same noise on every machine.
    words = np.frombuffer(random_bytes(word.itemsize * count), dtype=word.newbyteorder("<"), count=count)
    return words.astype(word, copy=False)


def append_random_word(value: int, random_bytes: RandomBytes) -> int:
    """Append 64 uniform bits to a number."""
    return value << WORD_BITS | int.from_bytes(random_bytes(8), "little")


MIN_SECRET_BYTES = 32
_MIN_DISTINCT_BYTES = 8
_FIRST_BLOCK = bytes(16)


class KeyedRandomness:
    """Secret and context: the release, its step, the key and the window.

    It is never pickled and never shown.
    """

    __slots__ = ("_context", "_secret")

    is_secret: ClassVar[bool] = True
    """Whether the noise protects anyone."""

    def __init__(self, secret: bytes, context: bytes) -> None:
        check_secret(secret)
        self._secret = secret
        self._context = context

    def derive(self, part: bytes) -> KeyedRandomness:
        return type(self)(self._secret, encode((self._context, part)))

    def random_bytes(self, message: bytes) -> RandomBytes:
        """Create a function of n that returns the next n bytes of the message's stream, from its start."""
        key = hmac.new(self._secret, encode((self._context, message)), hashlib.sha256).digest()
        stream = Cipher(algorithms.AES(key), modes.CTR(_FIRST_BLOCK)).encryptor()
        return lambda size: stream.update(bytes(size))

    def __repr__(self) -> str:
        return "<KeyedRandomness, secret hidden>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("KeyedRandomness cannot be pickled, because a pipeline must not contain its secret")


class PublicRandomness(KeyedRandomness):
    """Randomness from a public seed, whose noise protects nobody. `research.noise_for_tests` creates it."""

    __slots__ = ()

    is_secret = False


def check_secret(secret: bytes) -> None:
    """Refuse a secret that is too short or plainly not random, without showing it."""
    if not isinstance(secret, bytes) or len(secret) < MIN_SECRET_BYTES or len(set(secret)) < _MIN_DISTINCT_BYTES:
        raise ArgumentError(
            "",
            f'The secret must have at least {MIN_SECRET_BYTES} random bytes. Generate one with: python -c "import '
            'secrets; print(secrets.token_hex(32))"',
            "E120",
        )
