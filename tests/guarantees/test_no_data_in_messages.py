"""No item, weight, key or exact counter appears in a message, a repr or a log of the core."""

from __future__ import annotations

import datetime
import decimal
import logging
import traceback
import warnings

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import CountMin, CountSketch, NormBound, PrivacySpec, RecordBounds, ReleaseTerms, SketchSpec, release
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.encodings import decode, encode
from beam_dpsketch.privacy.contributions import PrivacyUnit
from tests.helpers import by_hand, strategies
from tests.helpers.raw import raw_of

NUMBER = 86_753_090_123
TEXT = "Jenny-86753090123"
MARKS = ("Jenny", "86753090123", "8.6753090123", NUMBER.to_bytes(8, "little").hex(), repr(NUMBER.to_bytes(8, "little")))

SPEC = SketchSpec(depth=2, width=4)
KEYED = SketchSpec(depth=2, width=4, item_hash="blake2b", item_key=b"Jenny-8675309012")


class _Person:
    def __repr__(self):
        return TEXT


BAD_ITEMS = {
    "float": [float(NUMBER)],
    "list": [[TEXT]],
    "dict": [{TEXT: NUMBER}],
    "decimal": [decimal.Decimal(NUMBER) / 8],
    "datetime": [datetime.datetime(2001, 2, 3)],
    "object": [_Person()],
    "nested object": [("a", (TEXT, _Person()))],
    "null among texts": [TEXT, None],
    "bool among numbers": [NUMBER, True],
    "too large": [NUMBER << 64],
    "too small": [-NUMBER << 64],
    "too large in a tuple": [(TEXT, NUMBER << 64)],
    "numpy floats": np.array([float(NUMBER)]),
    "numpy objects": np.array([TEXT, _Person()], dtype=object),
    "numpy table": np.array([[NUMBER]]),
    "arrow floats": pa.array([float(NUMBER)]),
    "arrow nulls": pa.array([TEXT, None]),
    "arrow lists": pa.array([[TEXT]]),
    "arrow structs": pa.array([{"name": TEXT}]),
    "arrow times": pa.array([datetime.datetime(2001, 2, 3)]),
}

BAD_WEIGHTS = {
    "float": [NUMBER + 0.5],
    "text": [TEXT],
    "object": [_Person()],
    "too large": [NUMBER << 40],
    "too small": [-NUMBER << 40],
    "too many": [NUMBER, NUMBER],
    "numpy floats": np.array([float(NUMBER)]),
    "numpy objects": np.array([_Person()], dtype=object),
    "numpy too large": np.array([(1 << 64) - NUMBER], dtype=np.uint64),
    "arrow floats": pa.array([float(NUMBER)]),
    "arrow nulls": pa.array([None], pa.int64()),
}


@pytest.fixture(autouse=True)
def no_logs_and_no_warnings(caplog):
    """Whatever a test of this module does, nothing is logged or warned of."""
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    assert caplog.text == ""


def _shown(error):
    """All that an uncaught exception prints, but for the lines of source."""
    told = []
    while error is not None:
        told += traceback.format_exception_only(error)
        error = None if error.__suppress_context__ and error.__cause__ is None else error.__cause__ or error.__context__
    return "".join(told)


def _check(shown):
    assert not [mark for mark in MARKS if mark in shown], "a secret is shown"


def _check_refused(call):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    _check(_shown(caught.value))
    return str(caught.value)


def test_the_check_finds_what_is_shown():
    for leak in (lambda: int(TEXT), lambda: {}[NUMBER]):
        with pytest.raises((ValueError, KeyError)) as caught:
            leak()
        with pytest.raises(AssertionError, match="a secret is shown"):
            _check(_shown(caught.value))


@pytest.mark.parametrize("items", BAD_ITEMS.values(), ids=BAD_ITEMS)
@pytest.mark.parametrize("kind", strategies.KINDS)
@pytest.mark.parametrize("spec", [SPEC, KEYED], ids=["murmur3", "blake2b"])
def test_items_that_cannot_be_counted_are_not_shown(kind, spec, items):
    assert "items" in _check_refused(lambda: raw_of(kind, spec).accumulate(items))
    released = by_hand.without_noise(raw_of(kind, spec))
    for ask in (released.estimate, released.interval, released.as_rows):
        _check_refused(lambda ask=ask: ask(items))
    _check_refused(lambda: released.top_k(1, items))


@pytest.mark.parametrize("weights", BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
@pytest.mark.parametrize("kind", strategies.KINDS)
def test_weights_that_cannot_be_added_are_not_shown(kind, weights):
    assert "weights" in _check_refused(lambda: raw_of(kind, SPEC).accumulate([TEXT], weights))


@pytest.mark.parametrize("item", [float(NUMBER), [TEXT], NUMBER << 64, (_Person(),)], ids=lambda it: type(it).__name__)
def test_items_that_cannot_be_encoded_are_not_shown(item):
    _check_refused(lambda: encode(item))


@pytest.mark.parametrize("data", [b"x" + TEXT.encode(), b"t" + TEXT.encode(), b"u" + TEXT.encode()])
def test_bytes_that_cannot_be_decoded_are_not_shown(data):
    _check_refused(lambda: decode(data))


@pytest.mark.parametrize("kind", strategies.KINDS)
@pytest.mark.parametrize("spec", [SPEC, KEYED], ids=["murmur3", "blake2b"])
def test_nothing_printed_shows_an_item_a_weight_or_a_counter(kind, spec):
    raw = raw_of(kind, spec).accumulate([TEXT, NUMBER], [NUMBER, NUMBER])
    released = release(raw, ReleaseTerms(PrivacySpec(rho=1), RecordBounds(1, max_weight=1 << 31)))
    for it in (raw, released, raw.spec, released.privacy):
        _check(repr(it) + str(it) + f"{it}")


@pytest.mark.parametrize("kind", strategies.KINDS)
def test_refused_merges_show_no_counter_and_no_key(kind):
    first, second = (raw_of(kind, spec).accumulate([TEXT], [NUMBER]) for spec in (SPEC, KEYED))
    _check_refused(lambda: first.merge(second))
    _check_refused(lambda: by_hand.without_noise(first).combine(by_hand.without_noise(second)))
    other = CountMin if kind is CountSketch else CountSketch
    _check_refused(lambda: first.merge(raw_of(other, SPEC)))


@pytest.mark.parametrize("kind", strategies.KINDS)
def test_refused_releases_show_no_counter(kind):
    raw = raw_of(kind, SPEC).accumulate([TEXT], [NUMBER])
    _check_refused(lambda: release(raw, ReleaseTerms(PrivacySpec(rho=1))))
    _check_refused(lambda: release(raw, ReleaseTerms(PrivacySpec(rho=10**9), RecordBounds(1))))
    _check_refused(lambda: release(raw, ReleaseTerms(1.0)))
    norm = ReleaseTerms(PrivacySpec(rho=1), NormBound(1, max_weight=1 << 31), privacy_unit=PrivacyUnit.PRIVACY_ID)
    assert "raw must have weights" in _check_refused(lambda: release(raw, norm))
    bare = ReleaseTerms(PrivacySpec(rho=1), NormBound(1), privacy_unit=PrivacyUnit.PRIVACY_ID)
    assert "max_weight" in _check_refused(lambda: release(raw.in_units_of(16), bare))
    _check(repr(release(raw, norm)) + str(release(raw, norm).privacy))


def test_damaged_bytes_are_not_shown():
    data = by_hand.without_noise(CountSketch(KEYED).accumulate([TEXT], [NUMBER])).to_bytes()
    for damaged in (data[:-1], data[:40], data + TEXT.encode(), TEXT.encode(), data[:50] + TEXT.encode() + data[50:]):
        _check_refused(lambda damaged=damaged: ReleasedSketch.from_bytes(damaged))
