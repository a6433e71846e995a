"""Second derivations of both item hashes and of the cells, in plain Python integers, from the documentation."""

from __future__ import annotations

import hashlib

_MASK = (1 << 64) - 1


def murmur3_x64_128(data: bytes) -> bytes:
    """MurmurHash3_x64_128 with seed 0 (Appleby, public domain), as its 16 bytes in little-endian order."""
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = 0
    blocks = len(data) // 16
    for block in range(blocks):
        k1 = int.from_bytes(data[16 * block : 16 * block + 8], "little")
        k2 = int.from_bytes(data[16 * block + 8 : 16 * block + 16], "little")
        h1 ^= _rotated(k1 * c1, 31) * c2 & _MASK
        h1 = (_rotated(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _rotated(k2 * c2, 33) * c1 & _MASK
        h2 = (_rotated(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[16 * blocks :]
    h2 ^= _rotated(int.from_bytes(tail[8:], "little") * c2, 33) * c1 & _MASK
    h1 ^= _rotated(int.from_bytes(tail[:8], "little") * c1, 31) * c2 & _MASK
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _murmur_finaliser(h1), _murmur_finaliser(h2)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return h1.to_bytes(8, "little") + h2.to_bytes(8, "little")


def encoding(item: object) -> bytes:
    """The canonical bytes: a letter for the type, then the text, the bytes, the 64-bit word or the parts."""
    if isinstance(item, str):
        return b"s" + item.encode("utf-8", "surrogatepass")
    if isinstance(item, bytes):
        return b"b" + item
    if isinstance(item, int):
        return (b"n" if item < 0 else b"u") + (item & _MASK).to_bytes(8, "little")
    assert isinstance(item, tuple)
    return b"t" + b"".join(len(encoding(part)).to_bytes(4, "little") + encoding(part) for part in item)


def fingerprint(item: object, item_hash: str, item_key: bytes) -> int:
    """An item's fingerprint: an integer itself under murmur3, otherwise a hash of its canonical bytes."""
    if item_hash == "blake2b":
        return int.from_bytes(hashlib.blake2b(encoding(item), digest_size=8, key=item_key).digest(), "little")
    if isinstance(item, int):
        return item & _MASK
    return int.from_bytes(murmur3_x64_128(encoding(item))[:8], "little")


def cell(fingerprint: int, *, seed: int, row: int, width: int) -> tuple[int, int]:
    """Column and sign: two SplitMix64 finalisers, a key from BLAKE2b of seed and row before each."""
    keys = hashlib.blake2b(
        seed.to_bytes(8, "little") + row.to_bytes(4, "little"), digest_size=16, person=b"dpsketch cells 1"
    ).digest()
    mixed = fingerprint * 0x9E3779B97F4A7C15
    for key in (keys[:8], keys[8:]):
        mixed = mixed + int.from_bytes(key, "little") & _MASK
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        mixed ^= mixed >> 31
    return (mixed >> 32) * width >> 32, 1 if mixed & 1 else -1


def _rotated(word: int, left: int) -> int:
    word &= _MASK
    return (word << left | word >> 64 - left) & _MASK


def _murmur_finaliser(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return word ^ word >> 33
