"""Keyed random bytes: what they are, that they repeat, that nothing of the secret gets out."""

from __future__ import annotations

import copy
import hashlib
import pickle
import traceback

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.encodings import encode
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness

SECRET = b"a secret of more than thirty-two bytes"
contexts = st.binary(max_size=40)


def _hmac_sha256(key: bytes, message: bytes) -> bytes:
    """RFC 2104, written out."""
    key = (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    inner, outer = bytes(byte ^ 0x36 for byte in key), bytes(byte ^ 0x5C for byte in key)
    return hashlib.sha256(outer + hashlib.sha256(inner + message).digest()).digest()


def _counter_mode(key: bytes, size: int) -> bytes:
    """NIST SP 800-38A, section 6.5, from single blocks."""
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    blocks = [block.update(number.to_bytes(16, "big")) for number in range(-(-size // 16))]
    return b"".join(blocks)[:size]


@given(secret=st.binary(min_size=64, max_size=100).map(lambda tail: SECRET + tail), context=contexts, message=contexts)
def test_bytes_are_counter_mode_under_the_hmac_of_context_and_message(secret, context, message):
    key = _hmac_sha256(secret, encode((context, message)))
    assert KeyedRandomness(secret, context).random_bytes(message)(100) == _counter_mode(key, 100)


@given(sizes=st.lists(st.integers(0, 70), max_size=8))
def test_bytes_do_not_depend_on_how_many_are_taken_at_a_time(sizes):
    take = KeyedRandomness(SECRET, b"c").random_bytes(b"m")
    assert b"".join(map(take, sizes)) == KeyedRandomness(SECRET, b"c").random_bytes(b"m")(sum(sizes))


@given(first=st.lists(contexts, min_size=1, max_size=3), second=st.lists(contexts, min_size=1, max_size=3))
def test_parts_of_contexts_are_told_apart(first, second):
    def start(parts):
        randomness = KeyedRandomness(SECRET, b"")
        for part in parts:
            randomness = randomness.derive(part)
        return randomness.random_bytes(b"")(32)

    assert (start(first) == start(second)) == (first == second)


def test_bytes_of_different_messages_contexts_and_secrets_are_unrelated():
    """Each pair agrees in half of 2**20 bits, within 6.3 standard deviations: false alarm below 3e-10 a pair."""
    size = 1 << 17
    streams = [
        KeyedRandomness(secret, context).random_bytes(message)(size)
        for secret, context, message in (
            (SECRET, b"", b""),
            (SECRET, b"", b"m"),
            (SECRET, b"m", b""),
            (SECRET[:-1] + b"t", b"", b""),
        )
    ]
    bits = [np.unpackbits(np.frombuffer(stream, np.uint8)) for stream in streams]
    for index, first in enumerate(bits):
        for second in bits[:index]:
            assert abs((first == second).mean() - 0.5) < 6.3 * 0.5 / np.sqrt(8 * size)


@pytest.mark.parametrize("secret", [b"", b"too-short-4711", b"x" * 100, "a text of more than thirty-two bytes", None])
def test_what_cannot_be_a_secret_is_refused_without_being_shown(secret):
    with pytest.raises(ValueError, match="at least 32 random bytes") as caught:
        KeyedRandomness(secret, b"")
    assert "4711" not in "".join(traceback.format_exception_only(caught.value))


def test_a_secret_is_not_shown_and_does_not_travel():
    randomness = KeyedRandomness(SECRET, b"context").derive(b"part")
    assert "secret of more" not in repr(randomness) + str(randomness)
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            copied(randomness)
