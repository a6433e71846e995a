"""Histograms whose ranks are released: a commutative monoid, and rows that their noise suits."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from beam_dpsketch import (
    ArgumentError,
    AutoNorm,
    FactorizationSpec,
    FloatDomain,
    Horizon,
    IntegerDomain,
    IPv4Domain,
    Metric,
    Metrics,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    ReleaseTerms,
    TreeSpec,
    plan,
    release,
    release_frame,
)
from beam_dpsketch.config import ConfigError, read_release
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.planning.kinds.sketched import AnySketch
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.transforms import PrivateMetrics, PrivateQuantiles
from tests.cli.consoles import run
from tests.helpers import laws

SPECS = {"integers": FactorizationSpec(IntegerDomain(-3, 20)), "floats": FactorizationSpec(FloatDomain(0, 1, 0.125))}
every_spec = pytest.mark.parametrize("name", SPECS)


def sketch_of(name: str) -> Any:
    def make(records: Any) -> FactorHistogram:
        items, weights = [item for item, _ in records], [weight for _, weight in records]
        return FactorHistogram(SPECS[name]).accumulate(items, weights)

    return make


def records_of(name: str) -> st.SearchStrategy[Any]:
    return st.lists(
        st.tuples(st.integers(-9, 30).map(float if name == "floats" else int), st.integers(-9, 9)), max_size=9
    )


@every_spec
@given(data=st.data())
def test_it_is_a_commutative_monoid(name: str, data: Any) -> None:
    laws.check_commutative_monoid(sketch_of(name), *(data.draw(records_of(name)) for _ in range(3)))
    laws.check_deletion_is_inverse(sketch_of(name), data.draw(records_of(name)))


def test_it_is_the_usual_layout_up_to_131_072_values_and_over_a_horizon_a_tree_is() -> None:
    assert Quantiles(IntegerDomain(0, (1 << 17) - 1)).spec == FactorizationSpec(IntegerDomain(0, (1 << 17) - 1))
    assert isinstance(Quantiles(IntegerDomain(0, 1 << 17)).spec, TreeSpec)
    assert isinstance(Quantiles(IPv4Domain()).spec, TreeSpec)
    horizon, domain = Horizon(0, 8, 4), IntegerDomain(0, 9)
    declared = ReleaseSpec(Quantiles(domain), PrivacySpec(rho=1), Record(), windows=horizon)
    assert declared.spec == TreeSpec.for_memory(domain)
    for count in (Quantiles(FactorizationSpec(domain)), AnySketch(FactorizationSpec(domain))):
        with pytest.raises(ArgumentError, match=r"E432"):
            ReleaseSpec(count, PrivacySpec(rho=1), Record(), windows=horizon)


@pytest.mark.parametrize(
    ("bounds", "layout", "words"),
    [
        (
            RecordBounds(5),
            FactorizationSpec,
            "a square-root factorization, for ranks; a plain tree has 1.33 times this noise",
        ),
        (
            RecordBounds(1, max_weight=10**6),
            TreeSpec,
            "because a square-root factorization has no room for such weights",
        ),
        (NormBound(5), TreeSpec, "because an L2 norm does not bound the rows of a square-root factorization"),
        (AutoNorm(), TreeSpec, "because an L2 norm"),
        (NormBound(5, norm="l1"), FactorizationSpec, "a square-root factorization, for ranks"),
    ],
)
def test_the_layout_suits_the_bounds_and_a_plan_says_why(bounds: Any, layout: Any, words: str) -> None:
    domain, privacy_unit = IntegerDomain(0, 999), PrivacyId("user", bounds)
    declared = ReleaseSpec(
        Quantiles(domain), PrivacySpec(rho=1), privacy_unit, weight="n" if bounds.says_max_weight else None
    )
    assert isinstance(declared.spec, layout)
    planned = " ".join(str(declared.plan()).split())
    assert f"Layout {words}" in planned or (words.startswith("because") and words in planned)
    together = ReleaseSpec(Metrics({"a": Metric(Quantiles(domain), "x")}), PrivacySpec(rho=1), privacy_unit)
    assert [type(part.spec) for part in together.spec.parts] == [layout]


LAYOUTS = {
    "factor": FactorizationSpec(IntegerDomain(0, 999)),
    "below a factor": TreeSpec.for_ranks(IntegerDomain(0, (1 << 20) - 1), 60_000),
}
SETTINGS = {
    "factor": "domain: {type: integer, low: 0, high: 999}, layout: factorization",
    "below a factor": "domain: {type: integer, low: 0, high: 1048575}, layout: factorization",
}
TABLE = pa.table({"user": ["a", "b"], "item": [1, 2]})


@pytest.mark.parametrize("bounds", [NormBound(5), AutoNorm()], ids=["norm", "auto"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_norm_of_order_2_is_refused_in_every_door_before_anything_is_spent(
    name: str, bounds: Any, tmp_path: pathlib.Path
) -> None:
    layout, privacy, privacy_unit = LAYOUTS[name], PrivacySpec(rho=1), PrivacyId("user", bounds)
    count, metrics = Quantiles(layout), Metrics({"a": Metric(Quantiles(layout), "item")})
    terms = ReleaseTerms(privacy, bounds, privacy_unit=PrivacyUnit.PRIVACY_ID)
    norm = "{max_norm: 5}" if isinstance(bounds, NormBound) else "auto"
    path, out = tmp_path / "settings.yaml", tmp_path / "x.dpsketch"
    whose = f"privacy_unit: {{privacy_id: user, norm: {norm}}}"
    path.write_text(f"{{kind: quantiles, item: item, {SETTINGS[name]}, privacy: {{rho: 1}}, {whose}}}")
    parquet.write_table(TABLE, tmp_path / "table.parquet")
    doors: list[Callable[[], Any]] = [
        lambda: plan(layout, terms),
        lambda: ReleaseSpec(count, privacy, privacy_unit).plan(),
        lambda: ReleaseSpec(metrics, privacy, privacy_unit).plan(),
        lambda: release_frame(TABLE, ReleaseSpec(count, privacy, privacy_unit, "item")),
        lambda: release_frame(TABLE, ReleaseSpec(metrics, privacy, privacy_unit)),
        lambda: PrivateQuantiles(layout, privacy, privacy_unit=privacy_unit, item="item"),
        lambda: PrivateMetrics(metrics.metrics, privacy, privacy_unit=privacy_unit),
    ]
    if isinstance(bounds, NormBound):
        doors.append(lambda: release(raw_type(layout)(layout).in_units_of(16), terms))
    for door in doors:
        with pytest.raises(ArgumentError, match=r"Use an L1 norm .* or TreeSpec.for_memory\(domain\).*E229"):
            door()
    with pytest.raises(ConfigError, match=r"Use an L1 norm \(norm: {max_norm: 20, norm: l1} .* or layout: tree.*E229"):
        read_release(path.read_text())
    code, printed = run("run", str(tmp_path / "table.parquet"), "--config", str(path), "--output", str(out))
    assert code == 2
    assert "E229" in printed
    assert not out.exists()


@pytest.mark.parametrize("name", LAYOUTS)
def test_other_bounds_take_a_factor(name: str) -> None:
    for bounds in (RecordBounds(5), NormBound(5, norm="l1"), AutoNorm(norm="l1")):
        declared = ReleaseSpec(Quantiles(LAYOUTS[name]), PrivacySpec(rho=1), PrivacyId("user", bounds))
        assert declared.plan().spec == LAYOUTS[name]


def test_values_are_asked_of_a_histogram_or_of_a_tree_that_has_half_of_rho_for_them() -> None:
    domain, wide = IntegerDomain(0, 999), IntegerDomain(0, 1 << 17)
    assert Quantiles(domain, "values").spec == TreeSpec.histogram(domain)
    assert Quantiles(wide, "values").spec == TreeSpec.for_search(wide)
    assert Quantiles(domain, "ranges").spec == FactorizationSpec(domain)
    with pytest.raises(ArgumentError, match="optimize_for"):
        Quantiles(domain, "medians")  # type: ignore[arg-type]


def test_a_domain_that_no_histogram_holds_is_refused() -> None:
    FactorizationSpec(IntegerDomain(1, 1 << 20))
    with pytest.raises(ArgumentError, match=r"E514.*TreeSpec|TreeSpec.*E514"):
        FactorizationSpec(IntegerDomain(0, 1 << 20))


def test_the_noise_of_rows_is_for_the_longest_column_and_is_drawn_once() -> None:
    """Rows of an empty histogram: 4,000 of them, so their mean square has a deviation of 1 / sqrt(2,000)."""
    spec, rho = FactorizationSpec(IntegerDomain(1, 4000)), Fraction(1, 10)
    released = release(FactorHistogram(spec), ReleaseTerms(PrivacySpec(rho=rho, summary_counts=None)))
    (sigma_squared,) = released.privacy.sigma_squared_per_level
    assert sigma_squared == 1 / (2 * rho)
    unit = 4**spec.factor.dropped_bits / spec.factor.squared_length
    found = float(np.mean(np.square(released.counters.astype(float)))) * unit / float(sigma_squared)
    assert abs(found - 1) < 7 / np.sqrt(2000)  # 7 deviations: below 1e-11


def test_rows_that_could_wrap_around_are_refused_before_any_noise() -> None:
    spec = FactorizationSpec(IntegerDomain(0, 9))
    heavy = FactorHistogram(spec).accumulate([3], [1 << 50])
    terms = ReleaseTerms(PrivacySpec(rho=1, summary_counts=None), RecordBounds(1, max_weight=1 << 31))
    with pytest.raises(ArgumentError, match="E515"):
        release(heavy, terms)


def test_raw_and_spec_know_each_other() -> None:
    spec = SPECS["integers"]
    assert raw_type(spec) is FactorHistogram
    (table,) = FactorHistogram.tables(spec)
    assert (table.cells_per_item, table.has_signs, table.share) == (1, False, 1)
    assert table.squared_amount == spec.factor.squared_length
