"""`decode` of each kind of release: laws of its answers, what it refuses, and that its intervals hold."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_dpsketch import CountMin, CountSketch, ListedItems, NormBound, RecordBounds, SketchSpec
from beam_dpsketch.answers.counts import ReleasedListedItems
from beam_dpsketch.answers.notes import codes
from beam_dpsketch.answers.rows import Frequency, Intervals
from beam_dpsketch.privacy.summary_counts import WEIGHT
from tests.helpers import by_hand, coverage, strategies
from tests.helpers.decoding import noisy_release, root_mean_square, zipf_weights

WEIGHTS = zipf_weights(1500)
RELEASED = noisy_release(WEIGHTS, sigma=5, width=1024)
DECODED = RELEASED.decode(np.arange(1500))
ALL = np.arange(1500)


@pytest.mark.parametrize("kind", [CountSketch, CountMin])
def test_decoding_brings_answers_closer_and_intervals_still_hold(kind: Any) -> None:
    released = RELEASED if kind is CountSketch else noisy_release(WEIGHTS, sigma=5, kind=kind, width=1024)
    before = released.interval(ALL)
    decoded = released.decode(ALL)
    after = decoded.interval(ALL)
    assert root_mean_square(after.estimate - WEIGHTS) < 0.2 * root_mean_square(before.estimate - WEIGHTS)
    assert root_mean_square(decoded.shrunk(ALL) - WEIGHTS) < root_mean_square(after.estimate - WEIGHTS)
    assert np.mean(after.upper - after.lower) < 0.3 * np.mean(before.upper - before.lower)
    assert 0.93 < np.mean((after.lower <= WEIGHTS) & (after.upper >= WEIGHTS)) < 0.97


def test_the_release_itself_answers_as_before() -> None:
    released = noisy_release(WEIGHTS, sigma=5)
    before, data = released.estimate(ALL), released.to_bytes()
    released.decode(ALL)
    np.testing.assert_array_equal(released.estimate(ALL), before)
    assert released.to_bytes() == data


@settings(max_examples=10)
@given(st.randoms(use_true_random=False), st.integers(1, 260))
def test_order_and_repetitions_of_the_dictionary_do_not_matter(random: Any, size: int) -> None:
    shuffled = [*range(size), *random.choices(range(size), k=30)]
    random.shuffle(shuffled)
    first, second = RELEASED.decode(range(size)), RELEASED.decode(shuffled)
    items = np.arange(size)
    np.testing.assert_array_equal(first.estimate(items), second.estimate(items))
    np.testing.assert_array_equal(first.shrunk(items), second.shrunk(items))
    assert first.interval(items) == second.interval(items)
    assert first.items == tuple(range(size))
    assert second.items == tuple(dict.fromkeys(shuffled))


def test_negated_counters_of_signed_weights_give_negated_answers() -> None:
    signed = RecordBounds(3, signed=True)
    spec, counters = RELEASED.spec, RELEASED.counters
    found = [
        by_hand.released(CountSketch, spec, each, bounds=signed, sigma_squared_per_level=(Fraction(25),)).decode(ALL)
        for each in (counters, -counters)
    ]
    np.testing.assert_allclose(found[0].estimate(ALL), -found[1].estimate(ALL), atol=1e-6)
    np.testing.assert_allclose(found[0].shrunk(ALL), -found[1].shrunk(ALL), atol=1e-6)


def test_shrunk_values_are_inside_the_intervals() -> None:
    rows, shrunk = DECODED.interval(ALL), DECODED.shrunk(ALL)
    assert (rows.lower - 1e-9 <= shrunk).all()
    assert (shrunk <= rows.upper + 1e-9).all()
    few = RELEASED.decode(range(199))
    np.testing.assert_array_equal(few.shrunk(range(199)), few.estimate(range(199)))


def test_answers_have_the_shapes_of_a_release() -> None:
    one = DECODED.interval(7)
    assert isinstance(one, Frequency)
    assert isinstance(DECODED.estimate(7), float)
    assert one.lower < one.estimate == DECODED.estimate(7) < one.upper
    assert DECODED.interval([7, 7, 3])[0] == one
    assert DECODED.estimate(pa.array([7, 3])).tolist() == DECODED.estimate(np.array([7, 3])).tolist()
    narrow, wide = DECODED.interval(7, 0.5), DECODED.interval(7, 0.999)
    assert wide.lower < narrow.lower < narrow.upper < wide.upper
    assert DECODED.top_k(3).item == (0, 1, 2)
    assert len(DECODED.top_k(10_000)) == 1500
    assert DECODED.as_rows([7]) == [{**one._asdict(), "shrunk": DECODED.shrunk(7)}]
    assert [row["item"] for row in RELEASED.decode(["b", "a", "b"]).as_rows()] == ["b", "a"]
    assert repr(DECODED) == "<Decoded of 1500 items>"
    again = pickle.loads(pickle.dumps(DECODED))
    assert again.interval(ALL, 0.9) == DECODED.interval(ALL, 0.9)


def test_a_release_of_next_to_nothing_says_so_in_its_answers() -> None:
    released = noisy_release(np.zeros(3), sigma=5, side=(by_hand.note(("records",), value=3),))
    assert codes(released.decode(ALL).top_k(2).notes) == "may_be_empty"


def test_the_summary_names_residual_noise_floor_and_share() -> None:
    text = DECODED.explain()
    assert "1,500 items" in text
    assert "noise alone has one of 5" in text
    assert "Noise floor: with noise alone, ±4.383" in text  # 1.96 * 5 / sqrt(5)
    assert "about 100.0% of the weight" in text
    weighed = noisy_release(WEIGHTS, sigma=5, side=(by_hand.note(WEIGHT, value=123_456),)).decode([0]).explain()
    assert re.search("estimates sum to about (19|20),..., of 123,456 in the release", weighed)
    partial = RELEASED.decode(range(1, 1500)).explain()
    assert float(partial.split("about ")[1].split("%")[0]) < 60
    assert "nothing can be said" in noisy_release(np.zeros(3), sigma=5).decode(ALL).explain()


@pytest.mark.parametrize("ask", ["estimate", "interval", "shrunk", "as_rows"])
def test_items_that_are_not_in_the_dictionary_are_refused_without_naming_them(ask: str) -> None:
    with pytest.raises(ValueError, match="must be in the dictionary, but 1 of 2 are not") as error:
        getattr(DECODED, ask)([1, strategies.SECRET])
    assert str(strategies.SECRET) not in str(error.value)
    with pytest.raises(ValueError, match="1 of 1"):
        getattr(DECODED, ask)(1 << 40)


def test_what_cannot_be_decoded_is_refused() -> None:
    with pytest.raises(ValueError, match="dictionary must not be empty"):
        RELEASED.decode([])
    with pytest.raises(TypeError) as error:
        RELEASED.decode([1, strategies.SECRET + 0.5])
    assert str(strategies.SECRET) not in str(error.value)
    with pytest.raises(ValueError, match="confidence"):
        DECODED.interval([1], 1.0)
    with pytest.raises(ValueError, match="k must be"):
        DECODED.top_k(0)


def test_combined_releases_and_fractions_of_records_are_decoded() -> None:
    scaled = {"scale_bits": 4, "bounds": NormBound(3), "sigma_squared_per_level": (Fraction(25),)}
    spec, counters = RELEASED.spec, RELEASED.counters * 16
    first = by_hand.released(CountSketch, spec, counters, **scaled)
    np.testing.assert_allclose(first.decode(ALL).estimate(ALL), DECODED.estimate(ALL), atol=1e-6)
    second = by_hand.released(CountSketch, spec, counters, **scaled, release_ids=(bytes(range(1, 49)),))
    both = first.combine(second)
    assert root_mean_square(both.decode(ALL).estimate(ALL) - 2 * DECODED.estimate(ALL)) < 1
    assert f"noise alone has one of {50**0.5:.4g}" in both.decode(ALL).explain()


def listed(counters: np.ndarray, sigma: int) -> ReleasedListedItems:
    noise = (Fraction(sigma**2),)
    items = ListedItems([f"item {number}" for number in range(len(counters))])
    return ReleasedListedItems(items, counters, by_hand.statement(sigma_squared_per_level=noise))


def test_listed_items_are_shrunk_and_otherwise_stay() -> None:
    truth = np.random.default_rng(5).choice([0, 0, 0, 2, 30], 2000)
    noise = np.rint(np.random.default_rng(6).normal(0, 5, 2000)).astype(np.int64)
    released = listed(truth + noise, 5)
    items, decoded = released.spec.items, released.decode()
    assert decoded.items == items
    assert decoded.interval(items, 0.9) == released.interval(items, 0.9)
    assert decoded.top_k(5) == released.top_k(5)
    assert root_mean_square(decoded.shrunk(items) - truth) < 0.7 * root_mean_square(noise)
    assert "2,000 listed items" in decoded.explain()
    some = released.decode([items[3], items[1], items[3]])
    assert some.items == (items[3], items[1])
    assert some.shrunk(items[1]) == released.estimate(items[1])
    assert pickle.loads(pickle.dumps(some)).estimate(items[3]) == released.estimate(items[3])
    with pytest.raises(ValueError, match="must be listed, but 1 of 1"):
        released.decode(["another"])
    with pytest.raises(ValueError, match="must be in the dictionary"):
        some.estimate(items[0])


class _DecodedOnce:
    """Intervals of what a release and a dictionary give, of this share of their width."""

    def __init__(self, dictionary: list[int]) -> None:
        self._dictionary = dictionary
        self._last: tuple[Any, Any] = (None, None)

    def scaled(self, factor: float) -> Callable[[Any, Any], Intervals]:
        def interval(released: Any, items: Any) -> Intervals:
            if self._last[0] is not released:
                self._last = released, released.decode(self._dictionary)
            found = self._last[1].interval(items)
            below, above = found.estimate - found.lower, found.upper - found.estimate
            return Intervals(found.estimate, found.estimate - factor * below, found.estimate + factor * above)

        return interval


@pytest.mark.slow
@pytest.mark.parametrize("data", coverage.WEIGHTS)
@pytest.mark.parametrize("noise", coverage.NOISES)
@pytest.mark.parametrize("kind", [CountSketch, CountMin])
def test_intervals_hold_whether_the_dictionary_is_whole_or_not(kind: Any, data: str, noise: str) -> None:
    """Exact binomial tests over 80 releases, false alarm 1e-9 each; intervals half as wide are found out.

    Nothing is shared by the releases: each has a seed and noise of its own.
    """
    whole, part = _DecodedOnce([*range(300), 10_000]), _DecodedOnce([0, *range(150, 200), 10_000])
    ways = {"whole": whole.scaled(1), "half": whole.scaled(0.5), "part": part.scaled(1)}
    spec = SketchSpec(depth=5, width=256)
    found = coverage.measure(kind, coverage.WEIGHTS[data], coverage.NOISES[noise], ways, releases=80, spec=spec)
    assert found["whole"].accepts(0.05)
    assert found["part"].accepts(0.05)
    assert not found["half"].accepts(0.05)
