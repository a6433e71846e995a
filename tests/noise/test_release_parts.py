"""Releases made together are what each alone would be, with noise and a release id of its own."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import zstandard

from beam_dpsketch import (
    CountSketch,
    IntegerDomain,
    ListedItems,
    NormBound,
    PrivacyBudget,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
)
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.by_hand import release_part
from beam_dpsketch.errors import BudgetExceededError, FormatError
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator, sums_of
from beam_dpsketch.exact.sums.keyed_sums import NO_KEY, KeyedSums
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.noising import Part, release_parts
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.statement.noisy import NoisyReleases

PRIVACY = PrivacySpec(rho=0.1)
SPECS: dict[str, Any] = {
    "count_sketch": SketchSpec(depth=3, width=8),
    "count_min": SketchSpec(kind="count_min", depth=3, width=8),
    "listed items": ListedItems(range(30)),
    "dyadic": TreeSpec.for_memory(IntegerDomain(0, 999), 4000),
}
PEOPLE = {"privacy_unit": PrivacyUnit.PRIVACY_ID, "output_cells": None}
TERMS = {
    "records": ReleaseTerms(PRIVACY),
    "bounds": ReleaseTerms(PRIVACY, RecordBounds(3, max_weight=2, max_keys=2), **PEOPLE),
    "a norm": ReleaseTerms(PRIVACY, NormBound(5), **PEOPLE),
    "nothing aside": ReleaseTerms(PrivacySpec(rho=1.0, summary_counts=None)),
}
SECRETS = [KeyedRandomness(b"a secret of more than thirty-two bytes", bytes([number])) for number in range(4)]
OF_RECORDS = Calibration.of(SPECS["count_sketch"], TERMS["records"])


def parts_of(spec: Any, terms: ReleaseTerms) -> list[Part]:
    """Sketches of different sizes, with and without the name of a run."""
    sketch_input = SketchInput(spec, terms.bounds, terms.counters)
    found = []
    for number, count in enumerate((0, 2, 300, 2)):
        items: list[Any] = [f"{item % 40}" if "Text" in repr(spec) else item % 30 for item in range(count)]
        raw = sketch_input.raw_sketch().accumulate(items)
        side = np.full(terms.aside, count, dtype=np.int64)
        found.append(Part(raw, side, bytes([number]), None if number == 2 else b"r" * 16))
    return found


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_keyed_releases_together_have_the_bytes_of_each_alone(spec: Any, terms: ReleaseTerms) -> None:
    parts = parts_of(spec, terms)
    together = [each.to_bytes() for each in answers_of(release_parts(parts, Calibration.of(spec, terms), SECRETS))]
    alone = [
        release_part(part.raw, part.side, terms, secret, run=part.run, part=part.name).to_bytes()
        for part, secret in zip(parts, SECRETS, strict=True)
    ]
    assert together == alone
    assert len(set(together)) == 4


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_releases_that_travel_together_come_back(spec: Any, terms: ReleaseTerms) -> None:
    """What is made without the checks of constructors passes them, and is the same."""
    releases = release_parts(parts_of(spec, terms), Calibration.of(spec, terms))
    expected = list(answers_of(releases))
    assert [ReleasedSketch.from_bytes(each.to_bytes()) for each in expected] == expected
    assert [PrivacyStatement(**vars(each.privacy)) for each in expected] == [each.privacy for each in expected]
    for back in (NoisyReleases.from_bytes(releases.to_bytes()), pickle.loads(pickle.dumps(releases))):
        assert list(answers_of(back)) == expected
        assert [type(each) for each in answers_of(back)] == [type(each) for each in expected]
    for places in ([3, 1], [2]):
        back = NoisyReleases.from_bytes(releases.take(places).to_bytes())
        assert list(answers_of(back)) == [expected[place] for place in places]
    assert repr(releases).startswith("<4 releases of ")


@pytest.mark.parametrize("largest", [100, 1 << 14, 1 << 30, 1 << 62])
def test_counters_of_any_size_come_back(largest: int) -> None:
    """Whether the first or another one is the widest."""
    spec = SPECS["count_sketch"]
    counters = np.zeros((3, spec.cells), dtype=np.int64)
    counters[0, 0], counters[1, 1] = largest, -largest
    (one,) = answers_of(release_parts([Part(CountSketch(spec), np.zeros(1, dtype=np.int64))], OF_RECORDS))
    for order in ([0, 1, 2], [2, 1, 0], [2, 0, 1]):
        ids, side = [bytes([number]) * 48 for number in order], np.zeros((3, 1), dtype=np.int64)
        sent = NoisyReleases(spec, one.privacy, 0, release_ids=ids, side=side, counters=counters[order])
        back = NoisyReleases.from_bytes(sent.to_bytes())
        for each in (sent, back, NoisyReleases.from_bytes(back.to_bytes())):
            assert [released.counters.ravel().tolist() for released in answers_of(each)] == counters[order].tolist()


def test_damaged_bytes_are_refused() -> None:
    packed = release_parts(parts_of(SPECS["count_sketch"], TERMS["records"]), OF_RECORDS).to_bytes()
    data = zstandard.decompress(packed)
    with pytest.raises(FormatError, match="digest"):
        NoisyReleases.from_bytes(zstandard.compress(data[:100] + bytes([data[100] ^ 1]) + data[101:]))


def test_ids_and_arrays_that_no_constructor_checks_again_are_checked() -> None:
    parts = parts_of(SPECS["count_sketch"], TERMS["records"])[:1]
    (released,) = answers_of(release_parts(parts, OF_RECORDS))
    right = {
        "release_ids": [bytes(48)],
        "side": np.zeros((1, 1), dtype=np.int64),
        "counters": np.zeros((1, 24), dtype=np.int64),
    }
    NoisyReleases(released.spec, released.privacy, 0, **right)
    for name, wrong in {
        "release_ids": [bytes(47)],
        "side": np.zeros((1, 2), dtype=np.int64),
        "counters": np.zeros((1, 24)),
    }.items():
        with pytest.raises(ValueError, match=name):
            NoisyReleases(released.spec, released.privacy, 0, **{**right, name: wrong})
    with pytest.raises(ValueError, match="run must have 16 bytes"):
        release_parts([Part(CountSketch(released.spec), np.zeros(1, dtype=np.int64), run=b"short")], OF_RECORDS)


@pytest.mark.parametrize("randomness", [None, SECRETS], ids=["system", "keyed"])
def test_release_ids_of_equal_parts_differ(randomness: Any) -> None:
    parts = [Part(CountSketch(SPECS["count_sketch"]), np.zeros(1, dtype=np.int64), b"", b"r" * 16)] * 4
    runs = [list(answers_of(release_parts(parts, OF_RECORDS, randomness))) for _ in range(4)]
    assert len({each.privacy.release_ids for each in runs[0]}) == 4
    assert len({each.counters.tobytes() for each in runs[0]}) == 4
    # One value comes with a probability of 0.03 at most: 16 times in a row with 1e-22.
    assert len({each.privacy.side[0].value for releases in runs for each in releases}) > 1


def test_a_part_of_a_budget_pays_for_one_release() -> None:
    raw = CountSketch(SPECS["count_sketch"])
    parts = [Part(raw, np.zeros(1, dtype=np.int64), bytes([number])) for number in range(2)]
    budget = PrivacyBudget(rho=1.0)
    with pytest.raises(BudgetExceededError, match="has already paid for another release"):
        release_parts(parts, Calibration.of(raw.spec, ReleaseTerms(budget.spend(rho=0.5))))
    assert len(release_parts(parts[:1], Calibration.of(raw.spec, ReleaseTerms(budget.spend(rho=0.5))))) == 1


def test_parts_of_another_spec_are_refused() -> None:
    side = np.zeros(1, dtype=np.int64)
    parts = [Part(CountSketch(SketchSpec(depth=3, width=8, seed=seed)), side) for seed in range(2)]
    with pytest.raises(ValueError, match="the same kind and spec"):
        release_parts(parts, OF_RECORDS)


@pytest.mark.parametrize("terms", [TERMS["records"], TERMS["a norm"]], ids=["records", "a norm"])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_sums_made_together_are_those_of_each_accumulator(spec: Any, terms: ReleaseTerms) -> None:
    """Empty, sparse, waiting and dense ones; weights of both signs and of any size."""
    sketch_input = SketchInput(spec, terms.bounds, terms.counters)
    accumulators = [SketchAccumulator(sketch_input) for _ in range(6)]
    sketches = [sketch_input.kind(spec) for _ in range(6)]
    items: list[Any] = [f"{item}" if "Text" in repr(spec) else item for item in range(20)]
    keys, _ = sketch_input.keys(items)
    weights = np.array([-1, 5, 1 << 62, -(1 << 63)] * 5, dtype=np.int64)
    dense = np.arange(spec.cells + sketch_input.side_size)
    accumulators[5].absorb(KeyedSums.of_row(sketch_input, NO_KEY, 0, dense))
    sketches[5].merge(sketch_input.kind.from_vector(spec, dense[: spec.cells]))
    for number in (1, 3, 5):
        for size in (number, len(keys)):
            accumulators[number].add_contributions(WeightedItems(keys[:size], weights[:size]))
            sketches[number].accumulate_keys(keys[:size], weights[:size])
    for item in items if terms is TERMS["records"] else ():  # a norm scales items before they are added
        accumulators[4].add(item)
        sketches[4].accumulate([item])
    wanted = [each.to_vector().tolist() for each in sketches]
    sums = sums_of(sketch_input, {bytes([number]): each for number, each in enumerate(accumulators)})
    changed = sums.counters
    assert changed.tolist() == wanted
    assert [each.to_sketch().to_vector().tolist() for each in accumulators] == wanted
    assert accumulators[5].to_sums().counters.tolist() == wanted[5:]
    changed += 1
    assert sums.counters.tolist() == wanted
