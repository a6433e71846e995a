"""Derive random bytes from a secret: equal for equal messages, unrelated for different ones.

Guarantee: computational. Without the secret, the bytes of different messages cannot be told from independent uniform
ones, except by breaking HMAC-SHA256 (a pseudorandom function of the message; Bellare 2006) or AES-256 in counter mode
(which expands its output; NIST SP 800-38A). Noise made from these bytes is private only as long as that holds.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NoReturn

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.hashing.encodings import encode
from beam_dpsketch.privacy.noise.random_words import RandomBytes

MIN_SECRET_BYTES = 32
_MIN_DISTINCT_BYTES = 8
_FIRST_BLOCK = bytes(16)


class KeyedRandomness:
    """A secret and a context: what is released, by which step, for which key and window.

    It is never pickled and never shown.
    """

    __slots__ = ("_context", "_secret")

    def __init__(self, secret: bytes, context: bytes) -> None:
        check_secret(secret)
        self._secret = secret
        self._context = context

    def derive(self, part: bytes) -> KeyedRandomness:
        return KeyedRandomness(self._secret, encode((self._context, part)))

    def random_bytes(self, message: bytes) -> RandomBytes:
        """Return a function of n that returns the next n bytes of the message's stream, from its start."""
        key = hmac.new(self._secret, encode((self._context, message)), hashlib.sha256).digest()
        stream = Cipher(algorithms.AES(key), modes.CTR(_FIRST_BLOCK)).encryptor()
        return lambda size: stream.update(bytes(size))

    def __repr__(self) -> str:
        return "<KeyedRandomness, secret hidden>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("KeyedRandomness cannot be pickled: a secret does not travel with a pipeline")


def check_secret(secret: bytes) -> None:
    """Refuse a secret that is too short or plainly not random, without showing it."""
    if not isinstance(secret, bytes) or len(secret) < MIN_SECRET_BYTES or len(set(secret)) < _MIN_DISTINCT_BYTES:
        raise ArgumentError(
            "",
            f'the secret must be at least {MIN_SECRET_BYTES} random bytes; make one with: python -c "import '
            'secrets; print(secrets.token_hex(32))"',
            "E120",
        )
