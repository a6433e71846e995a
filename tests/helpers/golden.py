"""Writes the golden releases in `tests/vectors/v1` that do not exist yet; never changes one that does.

python -m tests.helpers.golden
"""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import pickle
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    CountMin,
    CountSketch,
    DyadicCountSketch,
    FactorizationSpec,
    ListedItems,
    NormBound,
    RecordBounds,
    Released,
    SketchSpec,
    TreeSpec,
)
from beam_dpsketch.answers.counts import ReleasedCounts, ReleasedListedItems
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.encodings import join_parts
from beam_dpsketch.exact.domains import BytesDomain, FloatDomain, IntegerDomain, IPv4Domain, TextDomain, TimestampDomain
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.exact.sketches.listed_items import ThresholdedItems
from beam_dpsketch.exact.sketches.statistics import NumberSums, StatisticsSpec
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.notes import AnswerNote, KeyNote, ThresholdNote
from beam_dpsketch.statement.provenance import Provenance
from beam_dpsketch.statement.release_format import DIGEST_BYTES, RELEASE_START
from tests.helpers import by_hand, metric_specs
from tests.helpers.stored import forged, sealed

FOLDER = pathlib.Path(__file__).parents[1] / "vectors" / "v1"


def good() -> dict[str, Released]:
    """Releases by file name: every integer size, item hash, relation, unit and disclosure is in one of them."""
    count_min = CountMin(SketchSpec(kind="count_min", depth=3, width=8, seed=7)).accumulate(
        ["a"] * 5 + ["b"] * 2 + [1, b"c"]
    )
    count_sketch = CountSketch(
        SketchSpec(depth=2, width=5, seed=(1 << 64) - 1, item_hash="blake2b", item_key=bytes(range(16)))
    ).accumulate(["a", "b", ("a", 1)], [1 << 40, -(1 << 35), 3])
    wide = by_hand.released(
        CountSketch,
        SketchSpec(depth=1, width=4),
        np.array([[300, -300, 0, 32_767]]),
        rho=Fraction(22, 7),
        sigma_squared_per_level=(Fraction(10**40 + 1, 3**50),),
        relation=ADD_OR_REMOVE_ONE,
        privacy_unit=PrivacyUnit.RECORD,
        bounds=RecordBounds(1, max_weight=100, signed=True),
        window_count=12,
        disclosed=Disclosure.KEYS | Disclosure.WINDOWS,
    )
    middle = by_hand.released(
        CountMin,
        SketchSpec(depth=2, width=2, seed=1),
        [[1 << 20, -1], [0, 70_000]],
        privacy_unit=PrivacyUnit.PRIVACY_ID_IN_WINDOW,
        disclosed=Disclosure.WINDOWS,
    )
    first = by_hand.released(CountMin, SketchSpec(depth=1, width=3), [[1, 2, 3]])
    second = by_hand.released(
        CountMin, SketchSpec(depth=1, width=3), [[10, 20, 30]], release_ids=(bytes(48),), rho=Fraction(1, 3)
    )
    spec = SketchSpec(depth=1, width=2)
    day = 24 * 60 * 60 * 1_000_000
    in_period = {"privacy_unit": PrivacyUnit.PRIVACY_ID_IN_PERIOD, "window_count": 3, "period_micros": day}
    return {
        "count_min": by_hand.without_noise(count_min),
        "count_sketch_blake2b_int64": by_hand.without_noise(count_sketch),
        "count_sketch_int16": wide,
        "count_min_int32": middle,
        "count_min_combined": first.combine(second),
        "count_min_provenance": by_hand.released(
            CountMin, spec, [[3, 4]], provenance=(MADE, dataclasses.replace(MADE, date=""))
        ),
        "count_min_over_time": by_hand.released(
            CountMin,
            spec,
            [[8, 1]],
            scale_bits=2,
            privacy_unit=PrivacyUnit.PRIVACY_ID_OVER_HORIZON,
            bounds=RecordBounds(3, max_keys=5),
            window_count=7,
            over_time=AnswerNote(BinaryTree(64), 33),
        ),
        "count_min_in_period": by_hand.released(CountMin, spec, [[7, 8]], **in_period, reported_delta=1e-9),
        "count_min_keyed": by_hand.released(CountMin, spec, [[9, 10]], randomness=Randomness.KEYED),
        "listed_items": ReleasedListedItems(
            ListedItems(["Oslo", "", b"\xff", 1, -(1 << 63), (1 << 64) - 1, ("a", (1, b"")), "\ud800"]),
            np.arange(8) * 100 - 300,
            by_hand.statement(),
        ),
        **_groups(),
        **_norms(),
        **_side_notes(),
        **_lost_notes(),
        "count_min_chosen_keys": by_hand.released(
            CountMin,
            SketchSpec(depth=1, width=2),
            [[5, 6]],
            privacy_unit=PrivacyUnit.PRIVACY_ID,
            bounds=RecordBounds(2, max_keys=16),
            delta=Fraction(1, 1_000_000),
            keys=KeyNote(
                method="gaussian",
                max_keys=16,
                min_units=2,
                grid=48,
                sigma_squared=Fraction(2304),
                threshold=400,
                half=400,
                most=512,
                share=Fraction(1, 10),
            ),
        ),
        **_laplace(),
        **_trees(),
        **_statistics(),
        **_metrics(),
        **_factors(),
    }


def _factors() -> dict[str, Released]:
    """Rows of a histogram; in parts of records, with signs and other noise; two together; and in several metrics."""
    whole = by_hand.factor(FactorHistogram(FactorizationSpec(IntegerDomain(-5, 10))).accumulate([0, 3, 3, 99]))
    again = by_hand.factor(
        FactorHistogram(whole.spec).accumulate([-5, -5]), release_ids=(bytes(48),), rho=Fraction(1, 3)
    )
    fine = FactorHistogram(FactorizationSpec(FloatDomain(-1.0, 2.75, 0.25))).accumulate([-1.5, 0.0, 2.0], [3, -2, 7])
    people = {"bounds": NormBound(Fraction(5, 2), max_weight=9, signed=True), "scale_bits": 5}
    several = metric_specs.joined(whole.spec, ListedItems(["Oslo", "Rome"]))
    return {
        "factor": whole,
        "factor_norm_parts": by_hand.factor(fine, sigma_squared_per_level=(Fraction(22, 7),), **people),
        "factor_combined": whole.combine(again),
        "metrics_factor": by_hand.metrics(several, [(3, "Oslo"), (None, "Rome"), (10, None)]),
    }


def _statistics() -> dict[str, Released]:
    """Counts and sums of whole numbers; and squares too, of fractions in parts of records, with Laplace noise."""
    whole = NumberSums(StatisticsSpec(IntegerDomain(-5, 10))).accumulate([0, 3, 3, 99])
    fine = NumberSums(StatisticsSpec(FloatDomain(-1.0, 2.75, 1e-6), variance=True))
    pure = {"pure": Fraction(2), "pure_rho": Fraction(2), "rho": Fraction(2), "noise": Noise.LAPLACE}
    people = NormBound(Fraction(5, 2), norm="l1")
    return {
        "statistics": by_hand.numbers(whole),
        "statistics_variance": by_hand.numbers(
            fine.accumulate([-1.5, 0.0, 2.0]), parameter=Fraction(8), scale_bits=5, bounds=people, **pure
        ),
    }


def _metrics() -> dict[str, Released]:
    """Several metrics: with keys as one number, and as bytes in parts of records."""
    people = {"bounds": NormBound(Fraction(5, 2)), "scale_bits": 5}
    return {
        "metrics": by_hand.metrics(metric_specs.SPECS["one number, unequal shares"], [("Oslo", 3, 2.5)] * 9),
        "metrics_bytes": by_hand.metrics(
            metric_specs.SPECS["bytes of fine numbers"], [("ab", None, "Oslo"), ("", 1.0, None)], **people
        ),
    }


def _laplace() -> dict[str, ReleasedSketch]:
    """Releases with Laplace noise: pure, with a delta, and together with a Gaussian."""
    pure = {"pure": Fraction(2), "pure_rho": Fraction(2), "rho": Fraction(2), "noise": Noise.LAPLACE}
    listed = {
        "sigma_squared_per_level": (Fraction(1, 2),),
        "privacy_unit": PrivacyUnit.RECORD,
        "bounds": RecordBounds(1),
    }
    of_records = by_hand.note(("units", "records", "weight"), Fraction(1, 100), Fraction(1), Fraction(5000), -7)
    people = NormBound(Fraction(5, 2), norm="l1")
    note = {"delta": Fraction(1, 10**8), "keys": ThresholdNote(max_items=7, threshold=12, most=15)}
    spec = SketchSpec(depth=1, width=3)
    laplace = by_hand.released(
        CountSketch,
        spec,
        [[96, -3, 7]],
        **pure,
        sigma_squared_per_level=(Fraction(8),),
        bounds=people,
        release_ids=(bytes(48),),
        scale_bits=16,
    )
    return {
        "listed_items_laplace": ReleasedListedItems(
            ListedItems(["Oslo", "Rome"]),
            np.array([300, -1]),
            by_hand.statement(**pure, **listed, side=(dataclasses.replace(of_records, noise=Noise.LAPLACE),)),
        ),
        "count_sketch_laplace": laplace,
        "count_sketch_both": laplace.combine(by_hand.released(CountSketch, spec, [[5, 6, 7]], bounds=people)),
        "groups_laplace": ReleasedCounts(
            ThresholdedItems.of(IntegerDomain(-5, 10), [(15).to_bytes(8, "big")]),
            np.array([99]),
            by_hand.statement(
                **pure, **note, sigma_squared_per_level=(Fraction(98),), bounds=RecordBounds(2, max_keys=7)
            ),
        ),
    }


def _groups() -> dict[str, ReleasedSketch]:
    """Grouped counts of text, of numbers in parts of records that units also vote for, and of nothing."""
    words = ThresholdedItems.of(TextDomain(3), [b"ab\x03", b"abc\xff", b"\x01"], left_out=5)
    note = {"delta": Fraction(1, 10**8), "keys": ThresholdNote(max_items=7, threshold=12, most=15)}
    norm = {"bounds": NormBound(Fraction(5, 2), max_keys=7), "delta": Fraction(1, 10**6)}
    votes = KeyNote(
        method="two_rounds",
        max_keys=7,
        min_units=1,
        grid=2880,
        sigma_squared=Fraction(10**6),
        threshold=9000,
        half=8000,
        most=12_000,
        share=Fraction(1, 4),
    )
    scaled = ThresholdNote(max_items=7, threshold=12 << 16, most=15 << 16, scale_bits=16, votes=votes)
    numbers = ThresholdedItems.of(IntegerDomain(-5, 10), [(15).to_bytes(8, "big"), bytes(8)])
    return {
        "groups_text": ReleasedCounts(words, np.array([300, 20, 20]), by_hand.statement(**note)),
        "groups_numbers": ReleasedCounts(numbers, np.array([99, 98]), by_hand.statement(**norm, keys=scaled), 3),
        "groups_empty": ReleasedCounts(
            ThresholdedItems(BytesDomain(4)), np.zeros(0, dtype=np.int64), by_hand.statement(**note)
        ),
    }


def _norms() -> dict[str, ReleasedSketch]:
    """Releases under norms with and without limits, in whole records and in parts of them."""
    people = NormBound(Fraction(5, 2), max_per_item=1)
    limited = NormBound(20, max_weight=7, signed=True, max_distinct_items=1000)
    spec = SketchSpec(depth=2, width=2, seed=3)
    parts = [[33, -1], [1 << 20, 0]]
    return {
        "count_sketch_norm_parts": by_hand.released(CountSketch, spec, parts, scale_bits=5, bounds=people),
        "count_min_norm_whole": by_hand.released(CountMin, spec, [[300, -2], [298, 0]], bounds=limited),
    }


def _side_notes() -> dict[str, ReleasedSketch]:
    """Releases that say how much is in them: of people under a norm that was chosen, and of single records."""
    counts = {
        "units": (Fraction(1, 50), Fraction(6), Fraction(300), 1200 << 16),
        "records": (Fraction(1, 30), Fraction(100), Fraction(10**30 + 1, 3**50), (5000 << 16) + 1),
        "weight": (Fraction(1, 50), Fraction(100), Fraction(10_000), -(4900 << 16)),
        "clipped": (Fraction(1, 100), Fraction(25, 4), Fraction(1250), 300 << 16),
        "scaled": (Fraction(1, 100), Fraction(6), Fraction(600), -7),
    }
    people = by_hand.released(
        CountSketch,
        SketchSpec(depth=1, width=2, seed=5),
        [[96, -3]],
        scale_bits=5,
        bounds=NormBound(Fraction(5, 2), max_weight=9, signed=True),
        norm_share=Fraction(1, 20),
        side=tuple(by_hand.note(name, *numbers, scale_bits=16) for name, numbers in counts.items()),
    )
    records = by_hand.released(
        CountMin,
        SketchSpec(depth=1, width=2),
        [[31, 11]],
        privacy_unit=PrivacyUnit.RECORD,
        bounds=RecordBounds(1),
        side=(by_hand.note(("units", "records", "weight"), Fraction(1, 50), Fraction(1), Fraction(50), -42),),
    )
    return {"count_sketch_side_notes": people, "count_min_one_note": records}


def _lost_notes() -> dict[str, ReleasedSketch]:
    """Releases that tell what bounding took: each its own, and that of a run."""
    spec, share = SketchSpec(depth=1, width=2), Fraction(1, 50)
    own = LostNote(share=share, sigma_squared=Fraction(567, 2), first=0, counts=(17, -3, 1 << 40))
    kept = by_hand.note("weight", share / 2, Fraction(100), Fraction(10_000), 4900 << 16, scale_bits=16)
    of_run = LostNote(share=share / 2, sigma_squared=Fraction(567), first=-2, counts=(1, -(1 << 62), 0, 5), kept=kept)
    people: dict[str, Any] = {"privacy_unit": PrivacyUnit.PRIVACY_ID}
    return {
        "count_min_lost": by_hand.released(CountMin, spec, [[6, 5]], **people, bounds=RecordBounds(2), lost=own),
        "count_min_lost_by_run": by_hand.released(CountMin, spec, [[7, 4]], **people, bounds=NormBound(9), lost=of_run),
    }


def rows() -> dict[str, TimelineRow]:
    """Rows over time by file name: of both mechanisms, of records, and of people under a norm with side notes."""
    note = by_hand.note("units", Fraction(1, 50), Fraction(6), Fraction(300), -(1 << 40), scale_bits=8)
    people = {"privacy_unit": PrivacyUnit.PRIVACY_ID_OVER_HORIZON, "bounds": NormBound(Fraction(5, 2)), "side": (note,)}
    return {
        "row_binned": by_hand.row(),
        "row_binned_people": by_hand.row(8, BinnedRoot(9, ratio=2, weight_bits=16, gain_bits=7), **people),
        "row_tree": by_hand.row(200, BinaryTree(128), window_count=1),
    }


def path(name: str) -> pathlib.Path:
    """The file of a good release."""
    return FOLDER / f"{name}.dpsketch"


def _trees() -> dict[str, ReleasedSketch]:
    """Trees over every kind of domain, with every kind of level."""
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    hours = TimestampDomain(start, start + datetime.timedelta(hours=15), datetime.timedelta(hours=1))
    domains = {
        "dyadic_integers": IntegerDomain(-5, 10),
        "dyadic_floats": FloatDomain(-1.0, 2.75, 0.25),
        "dyadic_timestamps": hours,
        "dyadic_ipv4": IPv4Domain(),
    }
    trees = {}
    for seed, (name, domain) in enumerate(domains.items()):
        left = domain.bits - 3
        parts = [left] if left <= 20 else [20, left - 20]
        levels = (
            Level(2, "exact", 1, 4, Fraction(1, 3)),
            Level(1, "count_min", 2, 3, Fraction(1, 6)),
            *(Level(bits, "count_sketch", 3, 5, Fraction(1, 2 * len(parts))) for bits in parts),
        )
        spec = TreeSpec(domain=domain, levels=levels, seed=seed)
        trees[name] = _tree(ReleasedDyadicCountSketch, spec, levels=len(levels))
    levels = Level(3, "factor", 1, 8, Fraction(3, 5)), Level(1, "count_sketch", 3, 5, Fraction(2, 5))
    raw = DyadicCountSketch(TreeSpec(domain=IntegerDomain(-5, 10), levels=levels, seed=4)).accumulate([0, 3, 3, 99])
    noise = by_hand.statement(sigma_squared_per_level=(Fraction(9), Fraction(4)))
    trees["dyadic_below_factor"] = ReleasedDyadicCountSketch(raw.spec, by_hand.counters_of(raw), noise)
    return trees


def _tree(kind: type[ReleasedSketch], spec: Any, *, levels: int) -> ReleasedSketch:
    """A release of this tree with counters 0, 1, ... and another variance on each level."""
    noise = tuple(Fraction(number + 1, 3) for number in range(levels))
    return kind(spec, np.arange(spec.cells), by_hand.statement(sigma_squared_per_level=noise))


MADE = Provenance(
    privacy_id="person",
    items=("city", "page"),
    weight="visits",
    keys=("country", "day"),
    data_set="visits of 2026 <b>",
    version="0.0.1",
    settings="ab" * 32,
    date="2026-11-30",
)

BAD: dict[str, dict[str, dict[str, Any]]] = {
    "count_min": {
        "bad_kind": {"spec.class": 200},
        "bad_huge_shape": {"spec.depth": 64, "spec.width": 1 << 22},
        "bad_overflowing_shape": {"spec.depth": (1 << 32) - 1, "spec.width": (1 << 32) - 1},
        "bad_no_rows": {"spec.depth": 0},
        "bad_rho_zero": {"statement.rho": [0, 2]},
        "bad_rho_not_reduced": {"statement.rho": [2, 4]},
        "bad_rho_padded": {"statement.rho": [b"\1\0", 2]},
        "bad_rho_of_three": {"statement.rho": [1, 2, 1]},
        "bad_rho_of_floats": {"statement.rho": [1.0, 2]},
        "bad_denominator_zero": {"statement.rho": [1, 0]},
        "bad_bool": {"statement.first_windows": 0},
        "bad_map": {"statement.side": {}},
        "bad_size": {"size": 3},
        "bad_one_field_less": {"statement.over_time": ...},
    },
    "groups_text": {
        "bad_groups_twice": {"spec.encoded_items": join_parts([b"ab\3", b"ab\3", b"\1"])},
        "bad_groups_length": {"spec.encoded_items": join_parts([b"ab\2", b"abc\xff", b"\1"])},
        "bad_groups_cut_too_early": {"spec.encoded_items": join_parts([b"ab\xff", b"abc\xff", b"\1"])},
        "bad_groups_not_text": {"spec.encoded_items": join_parts([b"\xff\xfe\3", b"abc\xff", b"\1"])},
        "bad_groups_one_name": {"spec.encoded_items": join_parts([b"ab\3", b"ab\xc3\xff", b"\1"])},
        "bad_groups_not_cut_well": {"spec.encoded_items": join_parts([b"ab\3", b"abc\xff", b"\1"])[:-1]},
        "bad_groups_order": {"counters": b"\x14\0" * 2 + (300).to_bytes(2, "little")},
        "bad_groups_threshold": {"statement.keys.threshold": 0},
        "bad_groups_two_notes": {"statement.keys.class": 3},
    },
    "count_min_one_note": {
        "bad_side_cut": {"statement.side.0.scale_bits": ...},
        "bad_side_denominator": {"statement.side.0.sigma_squared": [bytes(1000) + b"\1", b"\1" + bytes(998) + b"\1"]},
        "bad_side_law": {"statement.side.0.noise": 3},
        "bad_side_limit_zero": {"statement.side.0.squared_limit": [0, 1]},
        "bad_side_name": {"statement.side.0.names": ["units", "records", "votes"]},
        "bad_side_name_twice": {"statement.side.0.names": ["units", "records", "records"]},
        "bad_side_no_names": {"statement.side.0.names": []},
        "bad_side_noise": {"statement.side.0.sigma_squared": [1, 257]},
        "bad_side_scale": {"statement.side.0.scale_bits": 17},
        "bad_side_share_not_reduced": {"statement.side.0.share": [2, 100]},
        "bad_side_share_of_all": {"statement.side.0.share": [1, 1]},
        "bad_side_spend_without_norm": {"statement.norm_share": [1, 20]},
    },
    "count_sketch_side_notes": {
        "bad_side_named_twice": {"statement.side.1.names": ["units"]},
        "bad_side_shares_of_all": {"statement.side.0.share": [1, 2], "statement.side.1.share": [1, 2]},
    },
    "count_sketch_norm_parts": {
        "bad_norm_zero": {"statement.bounds.max_norm": [0, 1]},
        "bad_norm_not_reduced": {"statement.bounds.max_norm": [10, 4]},
        "bad_norm_fine": {"statement.bounds.max_norm": [5, (1 << 16) + 1]},
        "bad_norm_limit_zero": {"statement.bounds.max_per_item": 0},
        "bad_norm_scale": {"scale_bits": 17},
        "bad_bounds": {"statement.bounds.class": 2},
    },
    "count_min_lost": {
        "bad_lost_cut": {"statement.lost.kept": ...},
        "bad_lost_first": {"statement.lost.first": 21},
        "bad_lost_few_bins": {"statement.lost.counts": [17, -3]},
        "bad_lost_many_bins": {"statement.lost.counts": [0] * 65},
        "bad_lost_law": {"statement.lost.noise": 3},
        "bad_lost_noise": {"statement.lost.sigma_squared": [1, 257]},
        "bad_lost_share_of_all": {"statement.lost.share": [1, 1]},
    },
    "count_min_provenance": {
        "bad_provenance_cut": {"statement.provenance.0.date": ...},
        "bad_provenance_date": {"statement.provenance.0.date": "20261130"},
        "bad_provenance_lines": {"statement.provenance.0.data_set": "two\nlines"},
        "bad_provenance_long": {"statement.provenance.0.keys": ["k" * 501]},
        "bad_provenance_twice": {"statement.provenance.0.date": ""},
    },
    "count_min_chosen_keys": {
        "bad_keys_cut": {"statement.keys.share": ...},
        "bad_keys_without_delta": {"statement.delta": [0, 1]},
        "bad_keys_delta_above_1": {"statement.delta": [2, 1]},
        "bad_keys_law_without_pure": {"statement.noise": 1},
        "bad_keys_pure_without_rho": {"statement.pure": [1, 4]},
        "bad_keys_half_a_note": {"statement.keys.class": 2},
        "bad_keys_method": {"statement.keys.method": "three_rounds"},
        "bad_keys_none": {"statement.keys.max_keys": 0},
        "bad_keys_noise": {"statement.keys.sigma_squared": [1, 5]},
        "bad_keys_threshold_zero": {"statement.keys.threshold": 0},
        "bad_keys_share_of_all": {"statement.keys.share": [1, 1]},
    },
    "factor": {
        "bad_factor_backwards": {"spec.domain.low": 10, "spec.domain.high": -5},
        "bad_factor_more_values": {"spec.domain.high": 11},
        "bad_factor_of_bytes": {"spec.domain.class": 5},
        "bad_factor_too_wide": {"spec.domain.high": (1 << 20) - 5},
        "bad_factor_no_noise": {"statement.sigma_squared_per_level": []},
        "bad_factor_two_noises": {"statement.sigma_squared_per_level": [[9, 1], [9, 1]]},
    },
    "row_binned": {
        "bad_row_bits": {"statement.over_time.mechanism.weight_bits": 17},
        "bad_row_cut": {"statement.over_time.dropped_bits": ...},
        "bad_row_dropped": {"statement.over_time.dropped_bits": 63},
        "bad_row_gain": {"statement.over_time.mechanism.gain_bits": 1},
        "bad_row_mechanism": {"statement.over_time.mechanism.class": 2},
        "bad_row_note": {"statement.over_time.class": 2},
        "bad_row_number": {"statement.over_time.number": 9},
        "bad_row_ratio": {"statement.over_time.mechanism.ratio": 0},
        "bad_row_unit": {"statement.privacy_unit": 0},
        "bad_row_windows": {"statement.over_time.mechanism.windows": 1},
    },
}
"""Releases with other parts than any may have, by the release and by their name; `...` takes a part away."""


def bad() -> dict[str, bytes]:
    """Bytes that no version may accept, by file name."""
    releases = {**good(), **rows()}
    data = releases["count_min"].to_bytes()
    body = data[:-DIGEST_BYTES]
    return {
        **{name: forged(releases[of].to_bytes(), parts) for of, named in BAD.items() for name, parts in named.items()},
        "bad_empty": b"",
        "bad_magic": sealed(b"DPSQ" + body[4:]),
        "bad_version": sealed(body[:4] + b"\xff\xff" + body[6:]),
        "bad_digest": data[:-1] + bytes([data[-1] ^ 1]),
        "bad_truncated": data[:-1],
        "bad_trailing": data + b"\x00",
        "bad_trailing_sealed": sealed(body + b"\x00"),
        "bad_wider_integer": sealed(body.replace(b"\x03\x08\x07", b"\x03\xcc\x08\x07")),
        "bad_huge_list": sealed(RELEASE_START + b"\xdd\xff\xff\xff\xff"),
        "bad_deep_lists": sealed(RELEASE_START + b"\x91" * 5000),
        "bad_pickle": pickle.dumps(["not", "a", "release"]),
        "bad_text": b"counters: 1 2 3\n" * 20,
    }


def write_missing() -> None:
    """Writes what is missing."""
    files = {path(name): release.to_bytes() for name, release in {**good(), **rows()}.items()}
    files |= {FOLDER / f"{name}.dpsketch": data for name, data in bad().items()}
    for file, data in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_bytes(data)


if __name__ == "__main__":
    write_missing()
