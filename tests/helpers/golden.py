"""Writes the golden releases in `tests/vectors/v1` that do not exist yet; never changes one that does.

python -m tests.helpers.golden
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
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
    FactorSpec,
    ListedItems,
    NormBound,
    PrivacyUnit,
    RecordBounds,
    Released,
    ReleasedCounts,
    ReleasedDyadicCountSketch,
    ReleasedListedItems,
    SketchSpec,
    TimelineRow,
    TreeSpec,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.domains import BytesDomain, FloatDomain, IntegerDomain, IPv4Domain, TextDomain, TimestampDomain
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.exact.sketches.listed_items import GroupedItems
from beam_dpsketch.exact.sketches.statistics import NumberSums, StatisticsSpec
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.notes import AnswerNote, GroupNote, KeyNote
from tests.helpers import by_hand, metric_specs

FOLDER = pathlib.Path(__file__).parents[1] / "vectors" / "v1"
DIGEST_BYTES = 16


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
        unit=PrivacyUnit.RECORD,
        bounds=RecordBounds(1, max_weight=100, signed=True),
        window_count=12,
        disclosed=Disclosure.KEYS | Disclosure.WINDOWS,
    )
    middle = by_hand.released(
        CountMin,
        SketchSpec(depth=2, width=2, seed=1),
        [[1 << 20, -1], [0, 70_000]],
        unit=PrivacyUnit.PRIVACY_ID_IN_WINDOW,
        disclosed=Disclosure.WINDOWS,
    )
    first = by_hand.released(CountMin, SketchSpec(depth=1, width=3), [[1, 2, 3]])
    second = by_hand.released(
        CountMin, SketchSpec(depth=1, width=3), [[10, 20, 30]], release_ids=(bytes(48),), rho=Fraction(1, 3)
    )
    spec = SketchSpec(depth=1, width=2)
    day = 24 * 60 * 60 * 1_000_000
    in_period = {"unit": PrivacyUnit.PRIVACY_ID_IN_PERIOD, "window_count": 3, "period_micros": day}
    return {
        "count_min": by_hand.without_noise(count_min),
        "count_sketch_blake2b_int64": by_hand.without_noise(count_sketch),
        "count_sketch_int16": wide,
        "count_min_int32": middle,
        "count_min_combined": first.combine(second),
        "count_min_over_time": by_hand.released(
            CountMin,
            spec,
            [[8, 1]],
            scale_bits=2,
            unit=PrivacyUnit.PRIVACY_ID_OVER_HORIZON,
            bounds=RecordBounds(3, max_keys=5),
            window_count=7,
            over_time=AnswerNote(BinaryTree(64), 33),
        ),
        "count_min_in_period": by_hand.released(CountMin, spec, [[7, 8]], **in_period, shown_delta=1e-9),
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
            unit=PrivacyUnit.PRIVACY_ID,
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
    whole = by_hand.factor(FactorHistogram(FactorSpec(IntegerDomain(-5, 10))).accumulate([0, 3, 3, 99]))
    again = by_hand.factor(
        FactorHistogram(whole.spec).accumulate([-5, -5]), release_ids=(bytes(48),), rho=Fraction(1, 3)
    )
    fine = FactorHistogram(FactorSpec(FloatDomain(-1.0, 2.75, 0.25))).accumulate([-1.5, 0.0, 2.0], [3, -2, 7])
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
    people = NormBound(Fraction(5, 2), order=1)
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
    listed = {"sigma_squared_per_level": (Fraction(1, 2),), "unit": PrivacyUnit.RECORD, "bounds": RecordBounds(1)}
    of_records = by_hand.note(("units", "records", "weight"), Fraction(1, 100), Fraction(1), Fraction(5000), -7)
    people = NormBound(Fraction(5, 2), order=1)
    note = {"delta": Fraction(1, 10**8), "keys": GroupNote(max_items=7, threshold=12, most=15)}
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
            GroupedItems.of(IntegerDomain(-5, 10), [(15).to_bytes(8, "big")]),
            np.array([99]),
            by_hand.statement(
                **pure, **note, sigma_squared_per_level=(Fraction(98),), bounds=RecordBounds(2, max_keys=7)
            ),
        ),
    }


def _groups() -> dict[str, ReleasedSketch]:
    """Grouped counts of text, of numbers in parts of records that units also vote for, and of nothing."""
    words = GroupedItems.of(TextDomain(3), [b"ab\x03", b"abc\xff", b"\x01"], left_out=5)
    note = {"delta": Fraction(1, 10**8), "keys": GroupNote(max_items=7, threshold=12, most=15)}
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
    scaled = GroupNote(max_items=7, threshold=12 << 16, most=15 << 16, scale_bits=16, votes=votes)
    numbers = GroupedItems.of(IntegerDomain(-5, 10), [(15).to_bytes(8, "big"), bytes(8)])
    return {
        "groups_text": ReleasedCounts(words, np.array([300, 20, 20]), by_hand.statement(**note)),
        "groups_numbers": ReleasedCounts(numbers, np.array([99, 98]), by_hand.statement(**norm, keys=scaled), 3),
        "groups_empty": ReleasedCounts(
            GroupedItems(BytesDomain(4)), np.zeros(0, dtype=np.int64), by_hand.statement(**note)
        ),
    }


def _norms() -> dict[str, ReleasedSketch]:
    """Releases under norms with and without limits, in whole records and in parts of them."""
    people = NormBound(Fraction(5, 2), max_per_item=1)
    limited = NormBound(20, max_weight=7, signed=True, resource_limit=1000)
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
        norm_spend=Fraction(1, 20),
        side=tuple(by_hand.note(name, *numbers, scale_bits=16) for name, numbers in counts.items()),
    )
    records = by_hand.released(
        CountMin,
        SketchSpec(depth=1, width=2),
        [[31, 11]],
        unit=PrivacyUnit.RECORD,
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
    people: dict[str, Any] = {"unit": PrivacyUnit.PRIVACY_ID}
    return {
        "count_min_lost": by_hand.released(CountMin, spec, [[6, 5]], **people, bounds=RecordBounds(2), lost=own),
        "count_min_lost_by_run": by_hand.released(CountMin, spec, [[7, 4]], **people, bounds=NormBound(9), lost=of_run),
    }


def rows() -> dict[str, TimelineRow]:
    """Rows over time by file name: of both mechanisms, of records, and of people under a norm with side notes."""
    note = by_hand.note("units", Fraction(1, 50), Fraction(6), Fraction(300), -(1 << 40), scale_bits=8)
    people = {"unit": PrivacyUnit.PRIVACY_ID_OVER_HORIZON, "bounds": NormBound(Fraction(5, 2)), "side": (note,)}
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


def sealed(body: bytes) -> bytes:
    """A body with its right digest."""
    return body + hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()


def bad() -> dict[str, bytes]:
    """Bytes that no version may accept."""
    data = good()["count_min"].to_bytes()
    body = data[:-DIGEST_BYTES]
    shape = (3).to_bytes(4, "little") + (8).to_bytes(4, "little")
    half = b"\x01\x00\x01\x01\x00\x02"
    assert body.count(shape) == body.count(half) == 1

    def changed(old: bytes, new: bytes) -> bytes:
        return sealed(body.replace(old, new))

    norm = good()["count_sketch_norm_parts"].to_bytes()[:-DIGEST_BYTES]
    # 5/2, max_weight 1, max_per_item 1, unsigned, without resource_limit, max_keys; order 2; without norm_spend, side
    # notes, lost, delta; nothing pure, noise 0, without keys and over_time; scale_bits 5, 4 bytes each.
    end = b"\x01\x00\x05\x01\x00\x02" + b"\x01\x00\x00\x00" + b"\x01\x01\x00\x00\x00" + bytes(3) + b"\x02" + bytes(5)
    end += bytes(3) + b"\x00\x00" + b"\x05\x02"
    assert norm.count(end) == 1

    def other_norm(place: int, new: bytes) -> bytes:
        return sealed(norm.replace(end, end[:place] + new + end[place + len(new) :]))

    return {
        **_bad_groups(),
        **_bad_sides(),
        **_bad_lost(),
        **_bad_keys(),
        **_bad_rows(),
        **_bad_factors(),
        "bad_norm_zero": sealed(norm.replace(end, b"\x00\x00\x01\x00\x01" + end[6:])),
        "bad_norm_not_reduced": other_norm(2, b"\x0a\x01\x00\x04"),
        "bad_norm_fine": sealed(norm.replace(end, b"\x01\x00\x05\x03\x00\x01\x00\x02" + end[6:])),
        "bad_norm_limit_zero": other_norm(11, b"\x00"),
        "bad_norm_half_a_limit": other_norm(10, b"\x02"),
        "bad_norm_scale": other_norm(len(end) - 2, b"\x11"),
        "bad_bounds": sealed(norm.replace(b"\x01" + end, b"\x02" + end)),
        "bad_empty": b"",
        "bad_magic": sealed(b"DPSQ" + body[4:]),
        "bad_version": sealed(body[:4] + b"\xff\xff" + body[6:]),
        "bad_kind": sealed(body[:6] + b"\xff" + body[7:]),
        "bad_digest": data[:-1] + bytes([data[-1] ^ 1]),
        "bad_truncated": data[:-1],
        "bad_trailing": data + b"\x00",
        "bad_trailing_sealed": sealed(body + b"\x00"),
        "bad_huge_shape": changed(shape, (64).to_bytes(4, "little") + (1 << 22).to_bytes(4, "little")),
        "bad_overflowing_shape": changed(shape, b"\xff" * 8),
        "bad_no_rows": changed(shape, bytes(4) + shape[4:]),
        "bad_rho_zero": changed(half, b"\x00\x00\x01\x00\x02"),
        "bad_rho_not_reduced": changed(half, b"\x01\x00\x02\x01\x00\x04"),
        "bad_rho_padded": changed(half, b"\x02\x00\x01\x00\x01\x00\x02"),
        "bad_denominator_zero": changed(half, b"\x01\x00\x01\x00\x00"),
        "bad_pickle": pickle.dumps(["not", "a", "release"]),
        "bad_text": b"counters: 1 2 3\n" * 20,
    }


def _bad_groups() -> dict[str, bytes]:
    """Grouped counts with items that no release can have."""
    body = good()["groups_text"].to_bytes()[:-DIGEST_BYTES]
    items = b"\x03\x00\x00\x00ab\x03" + b"\x04\x00\x00\x00abc\xff" + b"\x01\x00\x00\x00\x01"
    counts, note = (300).to_bytes(2, "little") + b"\x14\x00" * 2, b"\x02\x07" + bytes(3) + b"\x0c" + bytes(7)
    assert body.count(items) == body.count(counts) == body.count(note) == 1

    def other(old: bytes, new: bytes) -> bytes:
        return sealed(body.replace(old, new))

    return {
        "bad_groups_twice": other(items, items[:7] + items[:7] + items[-5:] + b""),
        "bad_groups_length": other(items, items.replace(b"ab\x03", b"ab\x02")),
        "bad_groups_cut_too_early": other(items, items.replace(b"ab\x03", b"ab\xff")),
        "bad_groups_not_text": other(items, items.replace(b"ab\x03", b"\xff\xfe\x03")),
        "bad_groups_one_name": other(items, items.replace(b"abc\xff", b"ab\xc3\xff")),
        "bad_groups_not_cut_well": other(items, items[:-1]),
        "bad_groups_order": other(counts, counts[2:] + counts[:2]),
        "bad_groups_threshold": other(note, note.replace(b"\x0c", b"\x00")),
        "bad_groups_two_notes": other(note, b"\x03" + note[1:]),
    }


def _bad_sides() -> dict[str, bytes]:
    """The release of single records with other side notes than a statement may have, or with a chosen norm."""
    body = good()["count_min_one_note"].to_bytes()[:-DIGEST_BYTES]
    parts = {
        "spend": b"\x00",
        "notes": b"\x01\x00",
        "names": b"\x03\x00\x00\x01\x02",  # units, records, weight
        "share": b"\x01\x00\x01\x01\x00\x32",  # 1/50
        "limit": b"\x01\x00\x01\x01\x00\x01",  # 1
        "law": b"\x00",
        "noise": b"\x01\x00\x32\x01\x00\x01",  # 50
        "value": (-42).to_bytes(8, "little", signed=True),
        "scale": b"\x00",
    }
    side = b"".join(parts.values())
    assert body.count(side) == 1
    long, half = (1000).to_bytes(2, "little"), b"\x01\x00\x01\x01\x00\x02"
    end = b"".join(list(parts.values())[4:])

    def other(**changes: bytes) -> bytes:
        return sealed(body.replace(side, b"".join({**parts, **changes}.values())))

    return {
        "bad_side_cut": other(scale=b""),
        "bad_side_denominator": other(noise=long + b"\x01" * 999 + b"\x02" + long + b"\x01" * 1000),
        "bad_side_half_a_spend": other(spend=b"\x02"),
        "bad_side_law": other(law=b"\x03"),
        "bad_side_limit_zero": other(limit=b"\x00\x00\x01\x00\x01"),
        "bad_side_more_notes": other(notes=b"\xff\xff"),
        "bad_side_name": other(names=b"\x03\x00\x00\x01\x05"),
        "bad_side_name_twice": other(names=b"\x03\x00\x00\x01\x01"),
        "bad_side_named_twice": other(notes=b"\x02\x00", scale=b"\x00" + side[3:]),
        "bad_side_no_names": other(names=b"\x00\x00"),
        "bad_side_noise": other(noise=b"\x01\x00\x01\x02\x00\x01\x01"),
        "bad_side_scale": other(scale=b"\x11"),
        "bad_side_share_not_reduced": other(share=b"\x01\x00\x02\x01\x00\x64"),
        "bad_side_share_of_all": other(share=b"\x01\x00\x01\x01\x00\x01"),
        "bad_side_shares_of_all": other(  # units and records have a half each
            notes=b"\x02\x00", names=b"\x01\x00\x00", share=half + end + b"\x01\x00\x01" + half
        ),
        "bad_side_spend_without_norm": other(spend=b"\x01\x01\x00\x01\x01\x00\x14"),
    }


def _bad_lost() -> dict[str, bytes]:
    """The release that tells its own loss, with other numbers than a histogram may have."""
    body = good()["count_min_lost"].to_bytes()[:-DIGEST_BYTES]
    parts = {
        "there": b"\x01",
        "share": b"\x01\x00\x01\x01\x00\x32",  # 1/50
        "law": b"\x00",
        "noise": b"\x02\x00\x37\x02\x01\x00\x02",  # 567/2
        "first": bytes(8),
        "bins": b"\x03\x00",
        "counts": b"".join(each.to_bytes(8, "little", signed=True) for each in (17, -3, 1 << 40)),
        "kept": b"\x00",
    }
    note = b"".join(parts.values())
    assert body.count(note) == 1

    def other(**changes: bytes) -> bytes:
        return sealed(body.replace(note, b"".join({**parts, **changes}.values())))

    return {
        "bad_lost_cut": other(kept=b""),
        "bad_lost_half_a_note": other(there=b"\x02"),
        "bad_lost_first": other(first=b"\x15" + bytes(7)),
        "bad_lost_few_bins": other(bins=b"\x02\x00", counts=parts["counts"][:16]),
        "bad_lost_many_bins": other(bins=b"\x41\x00", counts=bytes(8 * 65)),
        "bad_lost_law": other(law=b"\x03"),
        "bad_lost_noise": other(noise=b"\x01\x00\x01\x02\x00\x01\x01"),
        "bad_lost_share_of_all": other(share=b"\x01\x00\x01\x01\x00\x01"),
    }


def _bad_keys() -> dict[str, bytes]:
    """The release whose keys were chosen, with other notes than a statement may have."""
    body = good()["count_min_chosen_keys"].to_bytes()[:-DIGEST_BYTES]
    parts = {
        "delta": b"\x01\x01\x00\x01\x03\x00" + (1_000_000).to_bytes(3, "little"),
        "pure": b"\x00\x00",
        "law": b"\x00",
        "note": b"\x01",
        "method": b"\x00",
        "max_keys": (16).to_bytes(4, "little"),
        "min_units": (2).to_bytes(4, "little"),
        "grid": (48).to_bytes(4, "little"),
        "noise": b"\x02\x00\x00\x09\x01\x00\x01",
        "threshold": (400).to_bytes(8, "little") * 2 + (512).to_bytes(8, "little"),
        "share": b"\x01\x01\x00\x01\x01\x00\x0a",
    }
    note = b"".join(parts.values())
    assert body.count(note) == 1

    def other(**changes: bytes) -> bytes:
        return sealed(body.replace(note, b"".join({**parts, **changes}.values())))

    return {
        "bad_keys_cut": other(share=b""),
        "bad_keys_without_delta": other(delta=b"\x00"),
        "bad_keys_delta_above_1": other(delta=b"\x01\x01\x00\x02\x01\x00\x01"),
        "bad_keys_delta_zero": other(delta=b"\x01\x00\x00\x01\x00\x01"),
        "bad_keys_law_without_pure": other(law=b"\x01"),
        "bad_keys_pure_without_rho": other(pure=b"\x01\x01\x00\x01\x01\x00\x04\x00"),
        "bad_keys_half_a_note": other(note=b"\x02"),
        "bad_keys_method": other(method=b"\x03"),
        "bad_keys_none": other(max_keys=bytes(4)),
        "bad_keys_noise": other(noise=b"\x01\x00\x01\x01\x00\x05"),
        "bad_keys_threshold_zero": other(threshold=bytes(24)),
        "bad_keys_share_of_all": other(share=b"\x01\x01\x00\x01\x01\x00\x01"),
    }


def _bad_rows() -> dict[str, bytes]:
    """A row over time with other notes than a statement may have."""
    body = rows()["row_binned"].to_bytes()[:-DIGEST_BYTES]
    parts = {
        "note": b"\x01",
        "mechanism": b"\x00",
        "windows": (9).to_bytes(4, "little"),
        "ratio": b"\x04",
        "weight": b"\x0c",
        "gain": b"\x08",
        "number": (5).to_bytes(4, "little"),
        "dropped": b"\x03",
    }
    note = b"".join(parts.values())
    assert body.count(note) == 1

    def other(**changes: bytes) -> bytes:
        return sealed(body.replace(note, b"".join({**parts, **changes}.values())))

    unit = bytes([list(PrivacyUnit).index(PrivacyUnit.RECORD_OVER_HORIZON)]) + b"\x01\x00\x00\x00"
    assert body.count(unit) == 1
    return {
        "bad_row_bits": other(weight=b"\x11"),
        "bad_row_cut": other(dropped=b""),
        "bad_row_dropped": other(dropped=b"\x3f"),
        "bad_row_gain": other(gain=b"\x01"),
        "bad_row_mechanism": other(mechanism=b"\x02"),
        "bad_row_note": other(note=b"\x03"),
        "bad_row_number": other(number=(9).to_bytes(4, "little")),
        "bad_row_ratio": other(ratio=b"\x00"),
        "bad_row_unit": sealed(body.replace(unit, b"\x00" + unit[1:])),
        "bad_row_windows": other(windows=(1).to_bytes(4, "little")),
    }


def _bad_factors() -> dict[str, bytes]:
    """Rows of a factor over other domains than that of its 16 values, and with more than one noise."""
    body = good()["factor"].to_bytes()[:-DIGEST_BYTES]
    low, high = ((place % (1 << 128)).to_bytes(16, "little") for place in (-5, 10))
    domain, noise = b"\x00" + low + high, b"\x01\x00" + b"\x01\x00\x09\x01\x00\x01"  # one of 9
    assert body.count(domain) == body.count(noise) == 1

    def other(number: int, start: int, end: int) -> bytes:
        ends = ((place % (1 << 128)).to_bytes(16, "little") for place in (start, end))
        return sealed(body.replace(domain, bytes([number]) + b"".join(ends)))

    return {
        "bad_factor_backwards": other(0, 10, -5),
        "bad_factor_more_values": other(0, -5, 11),
        "bad_factor_of_bytes": other(5, -5, 10),
        "bad_factor_too_wide": other(0, -5, (1 << 20) - 5),
        "bad_factor_no_noise": sealed(body.replace(noise, b"\x00\x00")),
        "bad_factor_two_noises": sealed(body.replace(noise, b"\x02\x00" + noise[2:] * 2)),
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
