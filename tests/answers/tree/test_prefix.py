"""Frequent text found in a released prefix tree, with nobody having listed it."""

from __future__ import annotations

import collections
import copy
import functools
import re
from pydoc_data import topics
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    BytesDomain,
    Frequencies,
    PrefixSpec,
    PrefixTree,
    PrivacySpec,
    ReleaseTerms,
    TextDomain,
    release,
)
from beam_dpsketch.estimators.tree import prefix_search
from tests.helpers import trees


def tree_of(weights: dict[Any, int], domain: BytesDomain, memory: int = 490_000) -> PrefixTree:
    return PrefixTree(PrefixSpec.for_memory(domain, memory)).accumulate(list(weights), list(weights.values()))


def released_of(weights: dict[Any, int], domain: BytesDomain, rho: float = 1.0) -> Any:
    return release(tree_of(weights, domain), ReleaseTerms(PrivacySpec(rho=rho), trees.ONE))


@functools.cache
def english() -> collections.Counter[str]:
    """The words of the manual that comes with Python."""
    text = " ".join(topics.topics.values()).lower()
    return collections.Counter(re.findall(r"[a-z]+", text))


@pytest.mark.slow
def test_the_twenty_most_frequent_words_of_an_english_text_are_found() -> None:
    """Mean F1 of at least 0.9 in 6 releases; words that begin others ("a", "an", "in") are among them.

    About one word in 20 releases is missed for noise; more than 12 in 6 releases have probability below 1e-9.
    """
    words = english()
    assert sum(words.values()) > 50_000
    truth = {word for word, _ in words.most_common(20)}
    assert {"a", "in", "the"} <= truth
    scores = []
    for _ in range(6):
        found = released_of(dict(words), TextDomain(10)).top_k(20)
        hits = {frequency.item for frequency in found} & truth
        scores.append(2 * len(hits) / (len(found) + len(truth)))
    assert sum(scores) / len(scores) >= 0.9


NESTED = {"a": 9000, "an": 8000, "and": 7000, "ando": 6000, "andor": 5000, "": 4000, "b": 3000}


def test_short_words_that_begin_others_are_found_with_their_own_weight() -> None:
    """Noise of one level has sd < 60 here; estimates of ended words are averages. 10 sd: < 1e-20."""
    released = released_of(NESTED, TextDomain(6))
    top = released.top_k(7)
    assert {frequency.item for frequency in top} == set(NESTED)
    assert top.truncated == frozenset()
    for frequency in top:
        assert abs(frequency.estimate - NESTED[frequency.item]) < 600
    estimates = released.estimate(list(NESTED))
    assert np.abs(estimates - list(NESTED.values())).max() < 600
    given = released.top_k(3, ["b", "an", "none", "a", "an"])
    assert given.item == ("a", "an", "b")
    assert released.interval("an") == given[1]


def test_intervals_cover_the_truth() -> None:
    """Of 7 words in 30 releases at 99.99 %: expected misses 0.02; more than 20 have probability < 1e-9."""
    misses = 0
    for _ in range(30):
        found = released_of(NESTED, TextDomain(6), rho=0.5).heavy_hitters(500.0, 0.9999)
        for frequency in found:
            misses += not frequency.lower <= NESTED.get(frequency.item, 0) <= frequency.upper
        assert set(NESTED) == {frequency.item for frequency in found}
    assert misses <= 20


def test_intervals_of_given_items_cover_the_truth_also_where_it_is_zero() -> None:
    """Of 9 words in 30 releases at 99.99 %: expected misses 0.03; more than 20 have probability < 1e-9."""
    misses, truth = 0, NESTED | {"none": 0, "absent": 0}
    for _ in range(30):
        rows = released_of(NESTED, TextDomain(6), rho=0.5).interval(list(truth), 0.9999)
        misses += int(np.sum((rows.lower > list(truth.values())) | (rows.upper < list(truth.values()))))
        assert ((rows.lower < rows.estimate) & (rows.estimate < rows.upper)).all()
    assert misses <= 20


def crowded(deleted: int = 0) -> tuple[dict[str, int], Any]:
    """A release in which collisions cost more than noise, in which the heaviest words may have been deleted twice."""
    words = {f"{number * 7919 % 10_000:04d}": 40_000 // number for number in range(1, 401)}
    words = {word: -count if place < deleted else count for place, (word, count) in enumerate(words.items())}
    spec = PrefixSpec(domain=TextDomain(6), depth=5, width=2400)
    raw = PrefixTree(spec).accumulate(list(words), list(words.values()))
    return words, release(raw, ReleaseTerms(PrivacySpec(rho=1.0, side_counters=None), trees.ONE))


def as_read(released: Any) -> Frequencies:
    """What a search finds that subtracts nothing."""
    plain = copy.copy(released)
    plain._found = prefix_search.search(released.spec, released._levels, rounds=0)
    return plain.heavy_hitters(0.0)


def errors(found: Frequencies, words: dict[str, int]) -> np.ndarray:
    return np.abs(found.estimate - [words.get(item, 0) for item in found.item])


def coverage(found: Frequencies, words: dict[str, int]) -> float:
    truth = np.array([words.get(item, 0) for item in found.item])
    return float(np.mean((found.lower <= truth) & (truth <= found.upper)))


def test_a_search_subtracts_what_it_found_and_reads_the_rest_better() -> None:
    """As read, the mean error is 80 and 340 words never occur; after subtracting 1 and 0.25, limits far away."""
    words, released = crowded()
    before, after = as_read(released), released.heavy_hitters(0.0)
    assert errors(after, words).mean() < errors(before, words).mean() / 10
    assert after.detection_limit < before.detection_limit / 5
    assert len(set(before.item) - set(words)) > 100
    assert len(set(after.item) - set(words)) < 20
    assert len(set(words) - set(after.item)) < 20  # all are above the limit


def test_an_estimate_does_not_depend_on_what_a_search_found() -> None:
    words, released = crowded()
    before = released.interval(list(words))
    assert released.top_k(5).detection_limit < min(words.values())
    assert released.estimate(list(words)).tolist() == before.estimate.tolist()
    assert released.interval(list(words)).upper.tolist() == before.upper.tolist()
    assert [released.estimate(word) for word in list(words)[:9]] == before.estimate.tolist()[:9]


def test_a_search_is_not_worse_where_net_weights_are_negative() -> None:
    """As read, the mean error is 84; it is 2 after subtracting what is heavy and positive."""
    words, released = crowded(deleted=5)
    before, after = as_read(released), released.heavy_hitters(0.0)
    assert errors(after, words).mean() < errors(before, words).mean()
    assert after.detection_limit < before.detection_limit


@pytest.mark.slow
def test_intervals_of_found_words_hold_after_subtracting() -> None:
    """The mean over 40 releases of about 400 words is 0.953 (0.93 to 0.98): 0.9 is over 10 deviations of it away.

    Without subtracting the search takes its own errors for words, and half of its intervals miss.
    """
    releases = [crowded() for _ in range(40)]
    assert 0.92 <= np.mean([coverage(released.heavy_hitters(0.0), words) for words, released in releases]) <= 0.98
    words, released = releases[0]
    assert coverage(as_read(released), words) < 0.8


def test_items_as_long_as_the_tree_are_reported_by_their_beginning_and_flagged() -> None:
    weights = {"abcdefgh": 5000, "abcdefxyz": 3000, "abcdef": 2000, "abcde": 4000}
    top = released_of(weights, TextDomain(6)).top_k(2)
    assert {frequency.item for frequency in top} == {"abcdef", "abcde"}
    assert top.truncated == {"abcdef"}
    by_item = {frequency.item: frequency.estimate for frequency in top}
    assert by_item["abcdef"] == pytest.approx(10_000, abs=900)
    assert by_item["abcde"] == pytest.approx(4000, abs=900)
    assert released_of(weights, TextDomain(6)).top_k(1).truncated == {"abcdef"}
    short = released_of({"abcdefgh": 5000, "z": 9000}, TextDomain(6)).top_k(1)
    assert short.truncated == frozenset()  # of those listed only


def test_items_as_long_as_the_tree_are_asked_for_by_their_beginning() -> None:
    """Noise has sd < 60 here: 10 sd have a probability below 1e-20."""
    released = released_of({"abcdefgh": 5000, "abcdef": 2000, "z": 4000}, TextDomain(6))
    rows = released.interval(["abcdefgh", "z", "abcdef"])
    assert rows.truncated == {"abcdefgh", "abcdef"}
    assert rows.estimate == pytest.approx([7000, 4000, 7000], abs=600)
    assert rows.estimate.tolist() == released.estimate(rows.item).tolist()
    assert type(released.estimate("z")) is float


def test_a_character_cut_in_the_middle_is_left_out() -> None:
    top = released_of({"aaaé": 5000}, TextDomain(4)).top_k(1)  # é takes the 4th and the 5th byte
    assert [frequency.item for frequency in top] == ["aaa"]
    assert top.truncated == {"aaa"}


def test_a_cut_character_never_makes_a_whole_word_look_truncated() -> None:
    """ "andor" with a byte of noise behind it is no text of six bytes; shortened, it would be the word itself."""
    for _ in range(20):
        top = released_of(NESTED, TextDomain(6), rho=0.5).top_k(100)
        items = [frequency.item for frequency in top]
        assert len(items) == len(set(items))
        assert top.truncated.isdisjoint(NESTED)


def test_what_is_no_text_is_left_out_and_bytes_are_not() -> None:
    weights = {b"\xff\xfe": 5000, b"ok": 4000, b"\x00": 3000, b"\x00\x00": 2000}
    raw = tree_of(weights, BytesDomain(4))
    found = release(raw, ReleaseTerms(PrivacySpec(rho=1.0), trees.ONE)).top_k(4)
    assert [frequency.item for frequency in found] == list(weights)
    as_text = PrefixTree.from_vector(PrefixSpec.for_memory(TextDomain(4)), raw.to_vector())
    found = release(as_text, ReleaseTerms(PrivacySpec(rho=1.0), trees.ONE)).top_k(3)
    assert [frequency.item for frequency in found] == ["ok", "\x00", "\x00\x00"]


def test_a_deleted_word_is_not_found() -> None:
    raw = tree_of(NESTED, TextDomain(6)).accumulate(["and"], [-7000])
    np.testing.assert_array_equal(
        raw.to_vector(), tree_of({k: v for k, v in NESTED.items() if k != "and"}, TextDomain(6)).to_vector()
    )
    found = {frequency.item for frequency in release(raw, ReleaseTerms(PrivacySpec(rho=1.0), trees.ONE)).top_k(6)}
    assert found == set(NESTED) - {"and"}


def test_thresholds_limits_and_more_than_there_are() -> None:
    released = released_of(NESTED, TextDomain(6))
    assert {frequency.item for frequency in released.heavy_hitters(5500.0)} == {"a", "an", "and", "ando"}
    assert released.heavy_hitters(1e9).item == ()
    top = released.top_k(1000)
    estimates = [frequency.estimate for frequency in top]
    assert estimates == sorted(estimates, reverse=True)
    assert set(NESTED) <= {frequency.item for frequency in top}
    assert len(top) < 30  # 4 deviations, 257 symbols at each of at most 6 levels and some 20 prefixes
    largest = max(released.search_deviations)
    assert 5.6 * largest < top.detection_limit < 6.5 * largest  # 4 deviations to exceed, on each of 6 levels
    assert largest < max(released.level_deviations)
    assert trees.without_noise(PrefixTree(PrefixSpec.for_memory(TextDomain(6)))).top_k(3).item == ()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda tree: tree.top_k(0), "k must be between 1 and"),
        (lambda tree: tree.top_k(1.0), "k must be a whole number, got float"),
        (lambda tree: tree.top_k(1, confidence=1.0), "confidence must be greater than 0 and less than 1"),
        (lambda tree: tree.heavy_hitters(1.0, 0.0), "confidence must be greater than 0 and less than 1"),
        (lambda tree: tree.estimate([1]), "items must be text"),
        (lambda tree: tree.estimate(["a", None]), "items must be text"),
        (lambda tree: tree.estimate([b"a"]), "items must be text"),
    ],
)
def test_bad_questions_are_refused_in_words(ask: Any, message: str) -> None:
    tree = trees.without_noise(PrefixTree(PrefixSpec(domain=TextDomain(2), depth=1, width=4)))
    with pytest.raises((TypeError, ValueError), match=message):
        ask(tree)
