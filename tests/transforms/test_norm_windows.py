"""A `NormBound` in windows: one norm over all of them on bounded input, or over each period; per window on a stream.

The counters before the noise are compared with `tests.helpers.norm_reference`, where each person and period, or each
person and window, is a unit of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.display import DisplayData

from beam_dpsketch import (
    REPLACE_ONE,
    AssumePublicKeys,
    IntegerDomain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    RecordBounds,
    SketchSpec,
    TimeRange,
    TreeSpec,
    WindowingError,
)
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies, PrivateQuantiles
from beam_dpsketch.transforms.steps import stream_state
from beam_dpsketch.transforms.steps.windows import plan_of
from tests.helpers.norm_reference import Counted, Expected, assert_same, expected
from tests.helpers.pipelines import BUNDLE_BASED, FN_API
from tests.helpers.stream_cases import outputs
from tests.helpers.streams import Timed, in_windows, state_everywhere, stepped, unbounded
from tests.helpers.tree_pipelines import ExactVectors

PRIVACY = PrivacySpec(rho=Fraction(1, 10), relation=REPLACE_ONE, summary_counts=None)
SPEC = SketchSpec(depth=3, width=16)
TREE = TreeSpec(
    domain=IntegerDomain(0, 15),
    levels=(Level(2, "exact", 1, 4, Fraction(1, 3)), Level(2, "count_sketch", 3, 5, Fraction(2, 3))),
)
NORM = NormBound(6, max_weight=2, signed=True)
END = 600
FIXED, SLIDING = 60, (120, 60)
Windows = int | tuple[int, int]


class Visit(NamedTuple):
    user: str
    key: str
    item: int
    n: int


def visit(number: int) -> Visit:
    """The first users have many records, and the last ones few."""
    user = next(user for user in range(9) if number % 2 ** (user + 1) >= 2**user or user == 8)
    return Visit(f"user {user}", f"key {number // 3 % 2}", number * 7 % 16, number % 4 - 1)


VISITS = [(visit(number), float(number)) for number in range(END)]
LATE = Visit("user 0", "key 0", 15, 2), 7.0


def windows_of(time: float, windows: Windows) -> Iterator[tuple[int, int]]:
    """Start and end of the windows that a time is in."""
    size, step = (windows, windows) if isinstance(windows, int) else windows
    last = int(time // step * step)
    for start in range(last, last - size, -step):
        yield start, start + size


class Limit(NamedTuple):
    """Arguments of the unit and of the transform, the unit that they make of a window's end, and the declared range."""

    privacy_unit: dict[str, Any]
    arguments: dict[str, Any]
    unit_of: Callable[[int], int]
    range: tuple[int, int] = (-END, 2 * END)


LISTED = {"keys": PublicKeys(["key 0", "key 1"], "key")}
LIMITS = {
    "periods": Limit({"period": timedelta(minutes=5)}, {}, lambda end: (end - 1) // 300),
    "all windows": Limit({}, {}, lambda end: 0),
    "a range": Limit({}, {"windows": TimeRange(120, 480), **LISTED}, lambda end: 0, (120, 480)),
    "periods of a range": Limit(
        {"period": 180}, {"windows": TimeRange(120, 480), **LISTED}, lambda end: (end - 121) // 180, (120, 480)
    ),
}


def wanted(windows: Windows, limit: Limit, spec: Any = SPEC) -> dict[Any, Expected]:
    """The counters of each window and key; people of different periods are different people."""
    first, last = limit.range
    return expected(
        spec,
        NORM,
        (
            Counted((each.user, limit.unit_of(end)), (start, each.key), each.item, each.n)
            for each, time in VISITS
            for start, end in windows_of(time, windows)
            if first <= start and end <= last
        ),
    )


def by_id(bounds: Any = NORM, **limits: Any) -> PrivacyId:
    return PrivacyId("user", bounds, **limits)


def frequencies(privacy_unit: PrivacyId, **arguments: Any) -> Any:
    arguments = {"item": "item", "weight": "n", "keys": AssumePublicKeys("key")} | arguments
    return PrivateFrequencies(SPEC, PRIVACY, privacy_unit=privacy_unit, **arguments)


def quantiles(privacy_unit: PrivacyId) -> Any:
    return PrivateQuantiles(
        TREE, PRIVACY, item="item", weight="n", privacy_unit=privacy_unit, keys=AssumePublicKeys("key")
    )


def batch(pipeline: beam.Pipeline) -> beam.PCollection:
    elements = unbounded(VISITS)(pipeline)
    elements.is_bounded = True
    return elements


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize("windows", [SLIDING, FIXED], ids=["sliding", "fixed"])
@pytest.mark.parametrize("name", LIMITS)
def test_one_norm_covers_all_windows_of_a_batch_or_of_a_period(name: str, windows: Windows, runner: str) -> None:
    limit = LIMITS[name]
    transform = ExactVectors(frequencies(by_id(**limit.privacy_unit), **limit.arguments))
    found = outputs(batch, transform, windows, runner=runner)
    assert_same(found, wanted(windows, limit))
    if "windows" in limit.arguments:
        assert len(found) == 2 * len({start for start, _ in found}) == (12 if windows is FIXED else 10)


@pytest.mark.slow
def test_one_norm_covers_the_trees_of_all_windows() -> None:
    found = outputs(batch, ExactVectors(quantiles(by_id())), FIXED, runner=FN_API)
    assert_same(found, wanted(FIXED, LIMITS["all windows"], TREE))


def of_stream(windows: Windows, max_windows: int) -> dict[Any, Expected]:
    """Each user counts in the windows of a period that come first, the later ones of a visit first; each alone."""
    taken: dict[Any, dict[int, None]] = defaultdict(dict)
    for each, time in VISITS:
        for start, end in windows_of(time, windows):
            of_period = taken[each.user, (end - 1) // 300]
            if len(of_period) < max_windows:
                of_period[start] = None
    return expected(
        SPEC,
        NORM,
        (
            Counted((each.user, start), (start, each.key), each.item, each.n)
            for each, time in VISITS
            for start, end in windows_of(time, windows)
            if start in taken[each.user, (end - 1) // 300]
        ),
    )


def stream(timed: list[Timed], bundle: int = 45) -> Stream:
    """The watermark stops at each minute; the late record, after two minutes, is in no window."""
    return stepped(timed, 60, int(timed[-1][1]) + 61, late=LATE, bundle=bundle)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("max_windows", [3, 5])
@pytest.mark.parametrize("windows", [FIXED, SLIDING], ids=["fixed", "sliding"])
@pytest.mark.parametrize("state", ["merged all the time", "merged at the end", "none"])
def test_each_window_of_a_stream_is_bounded_alone(
    state: str, windows: Windows, max_windows: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if state != "none":
        request.getfixturevalue(state_everywhere.__name__)
    if state == "merged all the time":
        monkeypatch.setattr(stream_state, "MIN_WAITING", 0)
    transform = ExactVectors(frequencies(by_id(max_windows=max_windows, period=300)))
    found = outputs(stream(VISITS), transform, windows, "--streaming", runner=BUNDLE_BASED)
    assert_same(found, of_stream(windows, max_windows))


@pytest.mark.slow
@pytest.mark.usefixtures(state_everywhere.__name__)
def test_a_stream_of_another_runner_is_bounded_alike() -> None:
    transform = ExactVectors(frequencies(by_id(max_windows=5, period=300)))
    found = outputs(unbounded(VISITS), transform, FIXED, runner=FN_API)
    assert_same(found, of_stream(FIXED, 5))


def plan(transform: Any, windows: Any, *, streaming: bool = False) -> WindowPlan:
    """What the windows mean for the releases of a transform."""
    pipeline = beam.Pipeline(runner=FN_API)
    source = pipeline | (Stream().add_elements([1]) if streaming else beam.Create([1]))
    return plan_of(source if windows is None else source | in_windows(windows), transform._declared)


@pytest.mark.parametrize("windows", [None, FIXED, SLIDING], ids=["global", "fixed", "sliding"])
def test_a_batch_costs_one_norm_however_many_windows_there_are(windows: Any) -> None:
    """4 b^2 depth / (2 rho), of a CountSketch under REPLACE_ONE."""
    terms = plan(frequencies(by_id()), windows).terms
    assert (terms.privacy_unit, terms.window_count, terms.period_micros) == (PrivacyUnit.PRIVACY_ID, 1, 0)
    assert calibrate(SPEC, terms) == (4 * 36 * 3 * 5,)
    if windows is not None:
        terms = plan(frequencies(by_id(period=300)), windows).terms
        assert (terms.privacy_unit, terms.window_count) == (PrivacyUnit.PRIVACY_ID_IN_PERIOD, 1)
        assert terms.period_micros == 300_000_000
        assert calibrate(SPEC, terms) == (4 * 36 * 3 * 5,)


@pytest.mark.parametrize("windows", [FIXED, SLIDING], ids=["fixed", "sliding"])
def test_a_stream_costs_a_norm_for_each_window(windows: Windows) -> None:
    terms = plan(frequencies(by_id(max_windows=4, period=300)), windows, streaming=True).terms
    assert (terms.privacy_unit, terms.window_count) == (PrivacyUnit.PRIVACY_ID_IN_PERIOD, 4)
    assert calibrate(SPEC, terms) == (4 * 4 * 36 * 3 * 5,)


DISCLOSED: dict[str, tuple[Windows | None, dict[str, Any]]] = {
    "keys and windows": (FIXED, {}),
    "keys": (None, {}),
    "neither": (SLIDING, {"windows": TimeRange(0, 300), **LISTED}),
    "neither, global": (None, LISTED),
}


@pytest.mark.parametrize("name", DISCLOSED)
def test_a_norm_discloses_what_bounds_of_records_disclose(name: str) -> None:
    windows, arguments = DISCLOSED[name]
    limits = {"max_windows": 2} if windows else {}
    records = by_id(RecordBounds(1, max_weight=2, max_keys=1), **limits)
    norm, other = (plan(frequencies(privacy_unit, **arguments), windows).terms for privacy_unit in (by_id(), records))
    assert norm.disclosed == other.disclosed
    assert [name for name in ("KEYS", "WINDOWS") if Disclosure[name] in norm.disclosed] == [
        word.upper() for word in ("keys", "windows") if word in name
    ]


def test_a_release_of_a_stream_says_what_it_costs() -> None:
    transform = frequencies(by_id(max_windows=3, period=300))
    found = outputs(stream(VISITS[:60]), transform, FIXED, "--streaming", runner=BUNDLE_BASED)
    (words,) = {str(released.privacy).split("Clipping ")[0] for released in found.values()}
    assert "L2 norm of 6 per privacy id and window, in its first 3 windows of each period of 5 minutes" in words
    assert "the windows that end in one period" in words
    (sigma_squared,) = {released.privacy.sigma_squared for released in found.values()}
    assert sigma_squared == 3 * 4 * 36 * 3 * 5


def test_a_stream_cannot_be_idempotent_under_a_norm() -> None:
    transform = frequencies(by_id(max_windows=3, period=300)).with_idempotent_noise(
        release_id="visits", secret=EnvironmentSecret("OF_TESTS")
    )
    elements = beam.Pipeline(runner=FN_API) | Stream().add_elements([visit(1)]) | in_windows(FIXED)
    with pytest.raises(WindowingError, match=r"Use bounded input. .*RecordBounds .* only within one window"):
        elements | transform


def test_display_data_say_the_norm_and_the_period() -> None:
    shown = DisplayData.create_from(frequencies(by_id(NormBound(Fraction(7, 2), max_weight=2), period=300))).items
    values = {item.key: item.value for item in shown}
    assert {name: values.get(name) for name in ("max_norm", "max_weight", "period", "max_windows")} == {
        "max_norm": "7/2",
        "max_weight": "2",
        "period": "300 s",
        "max_windows": None,
    }
