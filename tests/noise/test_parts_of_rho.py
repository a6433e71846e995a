"""All parts of rho of a release sum to the rho that was asked for, in exact fractions, for every setting.

What each part costs is worked out from the noise that the statement says: Delta^2 / (2 sigma^2), with a second
derivation of Delta^2, from the proofs in the documentation of `privacy`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    ListedItems,
    NeighboringRelation,
    NormBound,
    PrivacySpec,
    PrivacyUnit,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
)
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.exact.sketches import RawSketch, raw_type
from beam_dpsketch.noise import calibration, tables
from beam_dpsketch.noise import keys as choosing
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.keys import choose_keys
from beam_dpsketch.noise.noising import Part, release_parts
from beam_dpsketch.privacy import terms as terms_module
from beam_dpsketch.privacy.contributions import Bounds
from beam_dpsketch.privacy.mechanism import Sensitivity, Spending
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism, matrix_rows
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.side_counters import LostCounter, LostIn, SideCounter, SideCounters
from beam_dpsketch.privacy.terms import RowTerms
from beam_dpsketch.statement.side_notes import SideNote
from tests.helpers import laws, noise, norms
from tests.helpers.laws import Fault
from tests.helpers.noise import no_guard

pytestmark = pytest.mark.usefixtures(no_guard.__name__)
GRID = 16
DELTA = Fraction(1, 10**8)


class Setting(NamedTuple):
    """All that a release is made with; `chosen` is the norm that an `AutoNorm` comes to."""

    spec: Any
    privacy: PrivacySpec
    bounds: Bounds
    unit: PrivacyUnit = PrivacyUnit.PRIVACY_ID
    output_cells: int | None = 1
    windows: int = 1
    chosen: Fraction = Fraction(33, GRID)
    selection: SelectionRule | None = None
    mechanism: RowMechanism | None = None
    lost_in: LostIn = LostIn.RELEASE

    @property
    def terms(self) -> ReleaseTerms:
        if self.mechanism is not None:
            return RowTerms(
                self.privacy,
                self.bounds,
                unit=self.unit,
                window_count=self.windows,
                output_cells=self.output_cells,
                selection=self.selection,
                mechanism=self.mechanism,
            )
        return ReleaseTerms(
            self.privacy,
            self.bounds,
            unit=self.unit,
            window_count=self.windows,
            period_micros=int(self.unit is PrivacyUnit.PRIVACY_ID_IN_PERIOD),
            output_cells=self.output_cells,
            selection=self.selection,
            lost_in=self.lost_in,
        )


def squared_limit(name: str, bounds: Any, output_cells: int | None) -> Fraction:
    """Return K^2 of a side counter, in records."""
    if isinstance(bounds, RecordBounds):
        most = bounds.max_per_key
        size = {"units": 1, "records": most, "weight": most * bounds.max_weight}[name]
        return Fraction(bounds.kept_keys * size**2)
    norm = Fraction(bounds.max_norm)
    if name in ("units", "scaled"):
        whole = max(1, math.floor(norm * norm))
        return Fraction(whole if output_cells is None else min(whole, output_cells))
    return norm**2 if name == "clipped" else (4 * norm) ** 2


def cost_of_note(note: SideNote, setting: Setting, bounds: Bounds) -> Fraction:
    """Return what a side counter costs, whichever of its names it goes by."""
    costs = set()
    for name in note.names:
        limit = squared_limit(name, bounds, setting.output_cells)
        assert note.squared_limit == limit
        factor = 1
        if setting.privacy.relation is REPLACE_ONE:
            factor = 4 if bounds.signed and name == "weight" else 2
        costs.add(factor * limit * reach(setting) / (2 * note.sigma_squared))
    (cost,) = costs
    return cost


def costs_of_lost(statement: PrivacyStatement, setting: Setting, bounds: Any) -> Iterator[Fraction]:
    """Return what the histogram of lost weight costs, and for a run what is kept of it."""
    note = statement.lost
    if note is None:
        return
    factor = 1 if setting.privacy.relation is ADD_OR_REMOVE_ONE else 2
    yield Fraction(factor * (1 if note.kept else setting.windows)) / (2 * note.sigma_squared)
    if note.kept is not None:
        if isinstance(bounds, RecordBounds):
            most = Fraction(bounds.max_per_key * bounds.max_weight * bounds.kept_keys * setting.windows)
        else:
            most = 4 * Fraction(bounds.max_norm)
        assert note.kept.squared_limit == most**2
        yield factor * most**2 / (2 * note.kept.sigma_squared)


def reach(setting: Setting) -> Fraction:
    """Return by how much the squares of a unit grow over its windows."""
    if setting.mechanism is None:
        return Fraction(setting.windows)
    rows = setting.mechanism.windows
    gram = np.zeros((rows, rows), dtype=object)
    for row in matrix_rows(setting.mechanism):
        gram += np.outer(row, row).astype(object)
    sums = [sum(sorted(line, reverse=True)[: setting.windows]) for line in gram.tolist()]
    worst = setting.windows * max(sums)
    if isinstance(setting.mechanism, BinaryTree):  # neighbouring windows from the first on are the worst ones
        worst = int(gram[: setting.windows, : setting.windows].sum())
    return Fraction(worst, int(max(gram.diagonal())))


def costs_of_tables(statement: PrivacyStatement, setting: Setting) -> Iterator[Fraction]:
    """Return what each table of a sketch costs."""
    bounds, spec = statement.bounds, setting.spec
    length = (
        Fraction(bounds.max_norm) ** 2
        if isinstance(bounds, NormBound)
        else bounds.kept_keys * (bounds.max_per_key * bounds.max_weight) ** 2
    )
    tables = zip(norms.tables_of(spec), norms.has_signs(spec), statement.sigma_squared_per_level, strict=True)
    for (cells, _), signs, variance in tables:
        row = 1 if statement.relation is ADD_OR_REMOVE_ONE else 4 if signs or bounds.signed else 2
        yield row * cells * length * reach(setting) / (2 * variance)


def wanted(setting: Setting) -> dict[str, Fraction]:
    """Return the share that each count was asked to have, by its name."""
    asked = setting.privacy.side_counters
    if asked is None:
        return {}
    shares = {name: getattr(asked, name) or Fraction(0) for name in ("units", "records", "weight")}
    bounds: Any = setting.bounds
    lost, in_records = asked.lost or Fraction(0), isinstance(bounds, RecordBounds)
    if setting.mechanism is not None or bounds.signed or setting.lost_in is LostIn.NOWHERE:
        shares |= {} if in_records else {"clipped": lost / 2, "scaled": lost / 2}
    elif setting.lost_in is LostIn.RUN:
        shares |= {"lost": lost / 2, "kept in the run": lost / 2}
    elif not setting.unit.is_one_record or bounds.max_weight > 1:
        shares |= {"lost": lost}
    if in_records:
        weighs = bounds.signed or bounds.max_weight > 1
        equal = [["units"], ["records"], ["weight"]]
        if bounds.max_per_key == 1:
            equal = [["units", "records"], ["weight"]] if weighs else [["units", "records", "weight"]]
        elif not weighs:
            equal = [["units"], ["records", "weight"]]
        shares |= {name: max(shares[each] for each in group) for group in equal for name in group}
    return {name: share for name, share in shares.items() if share}


def check_votes(statement: PrivacyStatement, setting: Setting) -> Fraction:
    """Return the part of rho that the sketches lose to votes; raise unless they cost it where nothing else moves."""
    rule, note = setting.selection, statement.keys
    if rule is None:
        assert (note, statement.delta) == (None, 0)
        return Fraction(0)
    assert note is not None
    assert statement.delta == rule.delta
    windows = 1 if setting.mechanism else setting.windows  # over time, keys are chosen once
    squares = windows / (2 * note.sigma_squared)
    joint, added = statement.bounds.has_norm or setting.mechanism is not None, statement.relation is ADD_OR_REMOVE_ONE
    if joint:
        squares *= (1 if added else 2) * note.grid**2
    else:
        squares *= (1 if added else 2) * rule.max_keys * math.isqrt(note.grid**2 // rule.max_keys) ** 2
    if joint or added:
        assert squares == statement.rho * note.share, "votes do not cost what is said"
    else:
        assert squares >= statement.rho * note.share, "votes cost less than what sketches lose to them"
    return note.share


def released(raw: RawSketch, terms: ReleaseTerms) -> Any:
    """Return the release, or a row, of a sketch without data."""
    part = Part(raw, np.zeros(terms.aside, dtype=np.int64))
    row = 0 if isinstance(terms, RowTerms) else None
    calibrated = Calibration.of(raw.spec, terms)
    (found,) = answers_of(release_parts([part], calibrated, row=row, lost=calibrated.empty_lost))
    return found


def check(setting: Setting) -> None:
    """Raise unless all parts of rho, worked out from the noise, sum to rho and are those that were asked for."""
    terms, rho, relation = setting.terms, setting.privacy.rho, setting.privacy.relation
    parts = []
    if isinstance(setting.bounds, AutoNorm):
        counts = 1 if relation is ADD_OR_REMOVE_ONE else 2  # of the histogram, that one unit changes by 1
        parts = [counts / (2 * tables.lengths(setting.bounds, Spending(rho), relation).parameter)]
        assert parts == [rho * setting.bounds.spend], "the choice has another part"
        before, terms = terms, terms.under(setting.chosen)
        assert terms.share_left == before.share_left, "the choice changes the part of the sketch"
    raw = raw_type(setting.spec)(setting.spec).in_units_of(terms.scale_bits)
    statement = released(raw, terms).privacy
    assert (statement.norm_spend or 0) * rho == sum(parts), "the choice is not said"
    found = {name: note.share for note in statement.side for name in note.names}
    of_lost = [] if (lost := statement.lost) is None else [lost.share, *([lost.kept.share] if lost.kept else [])]
    found |= zip(("lost", "kept in the run"), of_lost, strict=False)
    assert found == wanted(setting), "other counts or shares than asked for"
    costs = [cost_of_note(note, setting, statement.bounds) for note in statement.side]
    costs += costs_of_lost(statement, setting, statement.bounds)
    assert costs == [rho * share for share in [*(note.share for note in statement.side), *of_lost]], (
        "a count does not cost its share"
    )
    sketch = sum(costs_of_tables(statement, setting), Fraction(0))
    votes = check_votes(statement, setting)
    assert sketch == rho * statement.sketch_share == rho * (terms.share_left - votes), "the sketch costs another share"
    parts += [*costs, sketch]
    parts += [rho * votes] if votes else []
    assert sum(parts) == statement.rho == rho, "the parts do not sum to rho"
    assert all(part > 0 for part in parts), "a part is not above 0"
    if setting.selection is not None:
        return
    alone = released(raw, terms.without_side_counters()).privacy
    assert (alone.side, alone.lost) == ((), None)
    assert sum(costs_of_tables(alone, setting), Fraction(0)) == rho * (1 - (alone.norm_spend or 0))


SHARES = st.none() | st.fractions(Fraction(1, 1000), Fraction(1, 5), max_denominator=1000) | st.floats(1e-3, 0.2)
WEIGHTS: dict[str, Any] = {"max_weight": st.integers(1, 9), "signed": st.booleans()}
LIMITS: dict[str, Any] = {"max_per_item": st.none() | st.integers(1, 9), "resource_limit": st.none() | st.just(50)}
IDS = [unit for unit in PrivacyUnit if not unit.is_one_record and not unit.over_horizon]
RECORDS = [PrivacyUnit.RECORD, PrivacyUnit.RECORD_IN_THIS_RELEASE]


@st.composite
def specs(draw: st.DrawFn) -> Any:
    """Flat sketches, lists, and trees with even and uneven shares."""
    layout = draw(st.sampled_from(sorted(norms.LAYOUTS)))
    return norms.LAYOUTS[layout](np.random.default_rng(draw(st.integers(0, 9))))


@st.composite
def settings(draw: st.DrawFn) -> Setting:
    """Any combination."""
    privacy = PrivacySpec(
        rho=draw(st.fractions(Fraction(1, 10**6), Fraction(1, 10), max_denominator=10**9)),
        relation=draw(st.sampled_from(NeighboringRelation)),
        side_counters=draw(
            st.none()
            | st.just(SideCounters())
            | st.builds(SideCounters, units=SHARES, records=SHARES, weight=SHARES, lost=SHARES)
        ),
    )
    kind = draw(st.sampled_from(["record", "records", "norm", "chosen", "horizon"]))
    bounds: st.SearchStrategy[Bounds]
    if kind == "record":
        unit, bounds = draw(st.sampled_from(RECORDS)), st.builds(RecordBounds, st.just(1), **WEIGHTS)
    elif kind == "horizon":
        unit = PrivacyUnit.PRIVACY_ID_OVER_HORIZON
        bounds = st.builds(RecordBounds, st.integers(1, 3), max_keys=st.integers(1, 2), **WEIGHTS) | st.builds(
            NormBound, st.fractions(Fraction(1, 2), 50, max_denominator=100), **WEIGHTS, **LIMITS
        )
    else:
        unit = draw(st.sampled_from(IDS))
        bounds = {
            "records": st.builds(RecordBounds, st.integers(1, 3), max_keys=st.integers(1, 3), **WEIGHTS),
            "norm": st.builds(NormBound, st.fractions(Fraction(1, 2), 50, max_denominator=100), **WEIGHTS, **LIMITS),
            "chosen": st.builds(AutoNorm, st.fractions(Fraction(1, 1000), Fraction(1, 2)), **WEIGHTS, **LIMITS),
        }[kind]
    bound, selection = draw(bounds), None
    if kind != "chosen" and draw(st.booleans()):
        keys = bound.kept_keys if isinstance(bound, RecordBounds) else draw(st.integers(1, 20))
        share = draw(st.none() | st.fractions(Fraction(1, 1000), Fraction(1, 5), max_denominator=1000))
        selection = SelectionRule(delta=DELTA, max_keys=keys, share=share)
    mechanism = st.builds(BinnedRoot, st.integers(3, 12)) | st.builds(BinaryTree, st.integers(3, 12))
    return Setting(
        draw(specs()),
        privacy,
        bound,
        unit,
        draw(st.none() | st.integers(1, 4)),
        draw(st.integers(1, 3)),
        Fraction(draw(st.integers(GRID, 50 * GRID)), GRID),
        selection,
        draw(mechanism) if kind == "horizon" else None,
        draw(st.sampled_from([LostIn.RELEASE] if unit.is_one_record else LostIn)),
    )


REFUSED = ("must sum to less than 1", "must leave a part of rho", "rho is too small for these contribution bounds")


@given(setting=settings())
def test_all_parts_of_rho_sum_to_rho_for_every_setting(setting: Setting) -> None:
    try:
        assert setting.terms.share_left > 0
        choose_keys(setting.spec, setting.terms)
        check(setting)
    except ValueError as error:
        if not any(words in str(error) for words in REFUSED):
            raise
        reject()


def everyday() -> Iterator[Setting]:
    """Settings of every kind, the same in every run, so that a fault is found in each run or in none."""
    bounds: list[tuple[Bounds, PrivacyUnit]] = [
        (RecordBounds(1), PrivacyUnit.RECORD),
        (RecordBounds(1, max_weight=5, signed=True), PrivacyUnit.RECORD),
        (RecordBounds(3, max_keys=2, max_weight=4), PrivacyUnit.PRIVACY_ID),
        (NormBound(Fraction(5, 2)), PrivacyUnit.PRIVACY_ID_IN_PERIOD),
        (NormBound(20, max_weight=9, signed=True), PrivacyUnit.PRIVACY_ID),
        (AutoNorm(max_weight=9), PrivacyUnit.PRIVACY_ID),
    ]
    rng = np.random.default_rng(0)
    trees = [norms.LAYOUTS["fine shares"](rng), norms.LAYOUTS["all kinds"](rng)]
    for (bound, unit), relation, spec in itertools.product(
        bounds, NeighboringRelation, [SketchSpec(width=8), ListedItems(["a", "b"]), *trees]
    ):
        one = unit.is_one_record
        for cells, windows, lost_in in ((1, 1, LostIn.RELEASE), (None, 1, LostIn.RUN), (3, 2, LostIn.RUN)):
            setting = Setting(spec, PrivacySpec(rho=Fraction(1, 7), relation=relation), bound, unit, cells, windows)
            yield setting if one else setting._replace(lost_in=lost_in)
        if not isinstance(bound, AutoNorm):
            keys = bound.kept_keys if isinstance(bound, RecordBounds) else 7
            privacy, rule = (
                PrivacySpec(rho=Fraction(1, 7), relation=relation),
                SelectionRule(delta=DELTA, max_keys=keys),
            )
            yield Setting(spec, privacy, bound, unit, None, 2, selection=rule)


def check_everyday() -> None:
    for setting in everyday():
        check(setting)


def test_everyday_settings_are_accepted() -> None:
    check_everyday()


def share_left(share: Callable[..., Fraction]) -> Fault:
    return laws.around(terms_module, "share_left", share)


def sigma_squared_of(changed: Callable[[SideCounter], SideCounter]) -> Fault:
    return laws.around(
        tables,
        "of_counter",
        lambda exact, counter, *terms: dataclasses.replace(exact(changed(counter), *terms), share=counter.share),
    )


def lost_counter(changed: Callable[[LostCounter], LostCounter]) -> Fault:
    def faulty(exact: Any, *terms: Any, **settings: Any) -> LostCounter | None:
        found = exact(*terms, **settings)
        return found and changed(found)

    return laws.around(terms_module, "lost_counter", faulty)


def with_half_of_the_terms(exact: Any, terms: ReleaseTerms, norm: Any) -> ReleaseTerms:
    settings = {name: getattr(terms, name) for name in ("unit", "window_count", "output_cells", "lost_in")}
    return ReleaseTerms(terms.privacy, exact(terms, norm).bounds, **settings)


class Whole(NamedTuple):
    """A kind whose tables all have the whole share."""

    kind: Any

    def tables(self, spec: Any) -> list[Any]:
        return [table._replace(share=Fraction(1)) for table in self.kind.tables(spec)]


def with_less_noise(exact: Any, spec: Any, terms: ReleaseTerms) -> Any:
    choice = exact(spec, terms)
    note = choice and dataclasses.replace(choice.note, sigma_squared=choice.note.sigma_squared * 3 / 4)
    return choice and choice._replace(note=note)


LESS_NOISE = functools.partial(with_less_noise, choosing.choose_keys)
FAULTS = {
    "votes for nothing": laws.put(calibration, "sketch_share", lambda spec, terms: terms.share_left),
    "votes with less noise": laws.put(
        calibration, "choose_keys", functools.partial(with_less_noise, choosing.choose_keys)
    ),
    "all of rho for the sketch": share_left(lambda exact, counters, *others: Fraction(1)),
    "the share of one counter forgotten": share_left(lambda exact, counters, *others: exact(counters[1:], *others)),
    "the choice not paid for": share_left(lambda exact, counters, spend, lost: exact(counters, lost)),
    "lost weight not paid for": share_left(lambda exact, counters, spend, lost: exact(counters, spend)),
    "lost weight of one window": lost_counter(lambda found: found._replace(reach=1)),
    "what a run lost with twice its share": lost_counter(
        lambda found: found._replace(share=found.share * (2 if found.of_run else 1))
    ),
    "what a run keeps of one window": laws.around(
        terms_module, "lost_counter", lambda exact, *terms, windows, **rest: exact(*terms, windows=1, **rest)
    ),
    "shares taken from the sketch twice": share_left(lambda exact, *all_: 2 * exact(*all_) - 1),
    "counters without their share": sigma_squared_of(lambda counter: counter._replace(share=Fraction(1))),
    "one counter with twice its share": sigma_squared_of(
        lambda counter: counter._replace(share=counter.share * (2 if counter.name == "scaled" else 1))
    ),
    "signs forgotten": sigma_squared_of(lambda counter: counter._replace(signed=False)),
    "windows forgotten": laws.around(
        SideCounter,
        "sensitivity",
        lambda exact, counter, relation, **settings: exact(counter, relation, **settings | {"reach": 1}),
    ),
    "adding for replacing": laws.put(
        SideCounter, "sensitivity", lambda counter, relation, *, reach=1: Sensitivity(counter.squared_limit * reach)
    ),
    "limits of more cells than there are": laws.around(
        terms_module, "side_counters", lambda exact, shares, bounds, *, max_cells, **rest: exact(shares, bounds, **rest)
    ),
    "tables without their shares": laws.put(tables, "raw_type", lambda spec: Whole(raw_type(spec))),
    "the choice with all of rho": laws.around(
        tables, "lengths", lambda exact, auto, *spent: noise.with_parameter(exact(auto, *spent), auto.spend)
    ),
    "the choice forgotten afterwards": laws.around(ReleaseTerms, "under", with_half_of_the_terms),
}
test_a_planted_fault_is_refused = pytest.mark.one_fast_case(laws.mutants(FAULTS, check_everyday))
