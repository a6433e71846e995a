"""What noise this package gives for a promise: the one place of this comparison that asks it."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from beam_dpsketch import (
    ArgumentError,
    IntegerDomain,
    ItemFrequencies,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    RecordBounds,
    ReleaseSpec,
    SummaryCounts,
    ThresholdedCounts,
    Thresholding,
)
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.noise.keys import KeyChoice
from beam_dpsketch.privacy.noise import laws
from beam_dpsketch.privacy.noise.drawing import drawn_variance
from beam_dpsketch.privacy.selection import METHODS
from beam_dpsketch.privacy.two_rounds import RATIO
from beam_dpsketch.transforms import SelectKeys
from benchmarks.accuracy.noise_peers.promises import (
    GAUSSIAN,
    LAPLACE,
    Named,
    Person,
    Promise,
    best,
    gaussian_tail,
    laplace_deviation,
    laplace_tail,
    root,
)

LAWS = {laws.Noise.GAUSSIAN: GAUSSIAN, laws.Noise.LAPLACE: LAPLACE}
LISTED = 200
WEIGHED = 10
UNIVERSE = 1 << 20
# The parts of delta for keys that are tried; the most keys count.
KEY_SHARES = (Fraction(1, 2), Fraction(99, 100))


class Noise(NamedTuple):
    """The noise of one number of a release."""

    deviation: float = math.inf
    law: str = ""
    spec: ReleaseSpec | None = None

    @property
    def bound(self) -> str:
        """The bound, in a word or two."""
        return "" if self.spec is None else "norm" if self.spec.privacy_unit.bounds.has_norm else "records"


def noise_of(spec: ReleaseSpec) -> Noise:
    """The noise of the first table of a release, by the package's own calibration."""
    calibrated: Any = spec.resolved.calibrated
    law, parameter = LAWS[calibrated.terms.noise], float(calibrated.per_table[0])
    if law == GAUSSIAN:
        return Noise(math.sqrt(parameter), law, spec)
    return Noise(laplace_deviation(math.sqrt(parameter / 2), 0.5**calibrated.terms.scale_bits), law, spec)


def spent(promise: Promise, **more: Any) -> Iterator[PrivacySpec]:
    """The spec of one of the releases, in each way to keep the promise; pure epsilon keeps it whatever delta is."""
    ways: list[dict[str, Any]] = [{}]
    if promise.delta:
        ways += [{"delta": promise.delta}, {"delta": promise.delta, "noise": "laplace"}]
    for way in ways:
        given = {"epsilon": promise.epsilon, **way, **more}
        try:
            yield PrivacySpec(**given) if promise.releases == 1 else PrivacyBudget(**given).split(promise.releases)[0]
        except ArgumentError:  # as of Laplace noise with a rho
            continue


def bounds(person: Person, **keys: Any) -> tuple[Any, ...]:
    """Bounds that clip nothing of such a person. The first has the noise of an L1 norm, or less."""
    records = RecordBounds(person.each, max_keys=person.items) if keys else RecordBounds(person.total)
    return records, NormBound(root(person.squared), max_per_item=person.each)


def listed(promise: Promise, person: Person, counters: SummaryCounts | None = None) -> Noise:
    """The least noise of the count of a listed item."""
    count = ItemFrequencies(ListedItems(range(LISTED)))
    return least(
        functools.partial(ReleaseSpec, count, spec, PrivacyId("person", bound), item="item")
        for spec in spent(promise, summary_counts=counters)
        for bound in bounds(person)
    )


def by_key(promise: Promise, person: Person, counters: SummaryCounts | None = None) -> Noise:
    """The least noise of the count of records of a public key."""
    keys, one = PublicKeys(range(LISTED), "item"), ItemFrequencies(ListedItems([1]))
    return least(
        functools.partial(ReleaseSpec, one, spec, PrivacyId("person", bound), item="one", keys=keys)
        for spec in spent(promise, summary_counts=counters)
        for bound in bounds(person, keys=True)
    )


def weighed(promise: Promise, most: int) -> Noise:
    """The noise of the sum of weights of a listed item, where a person has one record of at most this weight."""
    count, person = ItemFrequencies(ListedItems(range(WEIGHED))), PrivacyId("person", RecordBounds(1, max_weight=most))
    return least(
        functools.partial(ReleaseSpec, count, spec, person, item="item", weight="weight")
        for spec in spent(promise, summary_counts=None)
    )


def least(ways: Iterable[Callable[[], ReleaseSpec]]) -> Noise:
    """The least noise of those releases that are not refused."""
    found = [Noise()]
    for way in ways:
        with contextlib.suppress(ArgumentError):  # as of Laplace noise under an L2 norm
            found.append(noise_of(way()))
    return min(found, key=lambda each: each.deviation)


def choices(promise: Promise, items: int) -> Iterator[KeyChoice]:
    """The ways in which `SelectKeys` chooses keys, with all that is spent."""
    assert promise.delta
    for method in METHODS:
        for share in KEY_SHARES:
            lost = Fraction(str(promise.delta)) * share
            with contextlib.suppress(ArgumentError):  # as of a method that is for one key
                yield _choice(promise, items, lost, method)


def _choice(promise: Promise, items: int, lost: Fraction, method: str) -> KeyChoice:
    keys = KeySelection(lost / promise.releases, "item", method=method)
    privacy_unit = PrivacyId("person", RecordBounds(1, max_keys=items))
    return SelectKeys(_for_keys(promise, lost, method), privacy_unit=privacy_unit, keys=keys).choice


def _for_keys(promise: Promise, lost: Fraction, method: str) -> PrivacySpec:
    """What one choice of keys may spend: a part of the rho, or of the epsilon of "geometric"."""
    total = PrivacySpec(epsilon=promise.epsilon, delta=promise.delta, summary_counts=None)
    if promise.releases == 1:
        return total
    if method == "geometric":
        return PrivacySpec(epsilon=promise.epsilon / promise.releases, delta=promise.delta / promise.releases)
    return PrivacySpec(rho=total.losing(lost).rho / promise.releases)


def grouped(promise: Promise, person: Person, counts: dict[int, int]) -> tuple[Named, ReleaseSpec]:
    """The best release of items with their counts, by `Thresholding`.

    Args:
      promise: with a delta.
      person: what each person has.
      counts: how many items have each number of records.
    """
    found: dict[Named, ReleaseSpec] = {}
    for spec in _grouped(promise, person):
        with contextlib.suppress(ArgumentError):
            found[_named(spec, person, counts)] = spec
    most = best(found)
    return most, found[most]


def _grouped(promise: Promise, person: Person) -> Iterator[ReleaseSpec]:
    for share in KEY_SHARES:
        lost = Fraction(str(promise.delta)) * share
        more = {"keys_delta": lost} if promise.releases > 1 else {}
        count = ThresholdedCounts(IntegerDomain(0, UNIVERSE - 1), 1, Thresholding(lost / promise.releases))
        for spec in spent(promise, summary_counts=None, **more):
            for bound in group_bounds(person) if spec.promises_delta else ():
                yield ReleaseSpec(count, spec, PrivacyId("person", bound), item="item")


def group_bounds(person: Person) -> tuple[Any, ...]:
    """The bounds of grouped counts, where each item is a key."""
    norm = NormBound(root(person.squared), max_per_item=person.each, max_keys=person.items)
    return RecordBounds(person.each, max_keys=person.items), norm


def _named(declared: ReleaseSpec, person: Person, counts: dict[int, int]) -> Named:
    how: Any = declared.resolved.calibrated
    assert isinstance(how, Counting)
    law, grid = LAWS[how.terms.noise], 0.5**how.note.scale_bits
    scale = math.sqrt(float(how.items.parameter) / (1 if law == GAUSSIAN else 2))
    starts = {count: how.note.threshold * grid - count for count in counts}
    if law == GAUSSIAN:
        shown = {count: gaussian_tail(scale, start) for count, start in starts.items()}
        deviation = scale
    else:
        shown = {count: laplace_tail(scale, start, grid) for count, start in starts.items()}
        deviation = laplace_deviation(scale, grid)
    if (choice := how.choice) is not None:
        missed = {count: 1 - _by_votes(choice, count // person.each, person.items) for count in counts}
        shown = {count: 1 - (1 - shown[count]) * missed[count] for count in counts}
    return Named(sum(number * shown[count] for count, number in counts.items()), deviation, law)


@functools.cache
def _by_votes(choice: KeyChoice, people: int, items: int) -> float:
    """About the probability that votes bring in an item of so many people; in two rounds, if none decides elsewhere."""
    first = people * next(weight for size, weight in choice.rule.classes if size >= items)
    if choice.rounds is not None:
        return choice.rounds.probability(first, people * math.isqrt((RATIO * choice.rounds.grid) ** 2 // items))
    return gaussian_tail(math.sqrt(drawn_variance(choice.note.sigma_squared)), choice.note.threshold - first)
