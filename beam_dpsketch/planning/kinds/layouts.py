"""Default layouts and their plan.

Quantiles use the layout with the least predicted error. At 1,024 values and in units of Delta / sqrt(2 rho), rank
errors are 3.0 with a square-root factorization and 4.0 with a tree that has exact levels. Errors for single values are
1.9 and 2.0, 1.4 in a tree with half of rho for them, and 1 in a histogram. The prediction excludes collisions in
sketched levels.

A single histogram can have Laplace noise, which is 2 to 4 times smaller if a unit has few records. It is therefore the
default for small domains under such bounds, if its ranks, as shares of the total, have less noise. The choice uses
public settings only. `benchmarks.accuracy.small_domains` compares both.

Searches and layouts for single values use a histogram over up to 2^17 values, because all noise is in one level and
values do not collide. For each key and window it needs at most 1.07 times the memory of a search tree.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.estimators.tree_levels import median_variance
from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.exact.bounding.netting import net
from beam_dpsketch.exact.bounding.norm_rule import UnitLengths
from beam_dpsketch.exact.declared.count import USUAL_QUANTILES, USUAL_TARGET_ERROR, Guess
from beam_dpsketch.exact.domains import Domain
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sketches.factor import USUAL_SIZE, FactorizationSpec
from beam_dpsketch.exact.sketches.listed_items import ListedItems
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.exact.sketches.trees import BYTES_PER_COUNTER, TreeSpec
from beam_dpsketch.noise.calibration import Calibration, why_not_laplace
from beam_dpsketch.planning.expected_error import factor_value_deviation, noise_detection, noise_rank_deviation
from beam_dpsketch.planning.plan import Plan
from beam_dpsketch.planning.sketch_plan import plan_sketch
from beam_dpsketch.planning.suiting import decided, width_under
from beam_dpsketch.privacy.contributions import ContributionLimit
from beam_dpsketch.privacy.factor.toeplitz import MAX_FACTOR_SIZE
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.bounds import NormBound
from beam_dpsketch.privacy.terms import ReleaseTerms

RankedLayout: TypeAlias = "TreeSpec | FactorizationSpec"
_MOST_BELOW_FACTOR = 1 << 32
"""In wider domains all values may be in a single top block, in which a factorization cannot separate them."""
_MOST_EVEN, _MOST_WEIGHT = 1 << 12, 1000
_LARGEST_HISTOGRAM = 256
_NO_NOISE = 1e-9  # the last cumulative share is known
Purpose: TypeAlias = Literal["ranks", "ranges", "values"]
"""Most frequent question about quantiles. A range is the difference of two ranks and has the layout for ranks."""


@_validate.explained
def plan(
    spec: SketchSpec | ListedItems | FactorizationSpec | TreeSpec | Domain,
    terms: ReleaseTerms,
    n: int | None = None,
    *,
    keys: int | None = None,
    search: bool = False,
    target_error: Fraction | float = USUAL_TARGET_ERROR,
    typical: tuple[float, float] | None = None,
    quantiles: Iterable[float] = USUAL_QUANTILES,
) -> Plan:
    """Predict a release's layout, bytes, noise and errors, before any data is read.

    Args:
      spec: the sketch, or a domain for quantiles with the default layout.
      terms: privacy loss, privacy unit, contribution bounds and windows.
      n: approximate records (or weight) per release. `None` omits predictions that depend on it.
      keys: how many output keys there are.
      search: whether the release lists the most frequent values.
      target_error: an error as a share of the total weight per release, between 0 and 1, for which the plan reports how
        many people are necessary. For an item with a tenth of the weight, 0.005 is 5 % of the item.
      typical: for quantiles of numbers, the approximate median and 99 % point. With n, the plan then reports errors in
        values.
      quantiles: the quantiles with predicted errors, each between 0 and 1.

    >>> from beam_dpsketch import IntegerDomain, PrivacySpec, REPLACE_ONE
    >>> from beam_dpsketch.privacy.terms import ReleaseTerms
    >>> terms = ReleaseTerms(PrivacySpec(rho=1.0, relation=REPLACE_ONE, summary_counts=None))
    >>> round(plan(IntegerDomain(0, 65_535), terms, n=100_000).rank_deviation["any"], 2)
    4.32
    """
    _validate.instance(ReleaseTerms, terms=terms)
    layout = _usual(spec, terms, search=search)
    terms = dataclasses.replace(terms, total_cells=layout.total_cells)
    calibration = Calibration.of(layout, decided(layout, terms))
    guess = Guess.of(typical, quantiles)
    return plan_sketch(calibration, n, keys=keys, search=search, target_error=target_error, guess=guess)


def layout_of(
    domain: Domain | RankedLayout,
    optimize_for: Purpose = "ranks",
    *,
    needs_tree: bool = False,
    terms: ReleaseTerms | None = None,
) -> RankedLayout:
    """Select the quantile layout with the least predicted error for a domain, or keep a given layout.

    Args:
      domain: the values.
      optimize_for: the most frequent question.
      needs_tree: whether a square-root factorization is impossible.
      terms: the release terms, possibly without a noise distribution. `None` means Gaussian noise.
    """
    _validate.one_of(get_args(Purpose), optimize_for=optimize_for)
    if isinstance(domain, (TreeSpec, FactorizationSpec)):
        return domain
    _validate.instance(Domain, domain=domain)
    layouts = _layouts(domain, optimize_for).values()
    found = [each for each in layouts if not (needs_tree and each.has_factor)]
    usual = min(found, key=lambda layout: _predicted(layout, optimize_for))
    histogram = _with_laplace(domain, optimize_for, terms)
    return usual if histogram is None or _over_histogram(usual, histogram, terms) <= 1 else histogram


def search_layout(domain: Domain) -> TreeSpec:
    """Select the search layout for a domain: a histogram up to its size limit, otherwise a tree with few levels."""
    _validate.instance(Domain, domain=domain)
    return TreeSpec.histogram(domain) if domain.size <= USUAL_SIZE else TreeSpec.for_search(domain)


def _with_laplace(domain: Domain, optimize_for: Purpose, terms: ReleaseTerms | None) -> TreeSpec | None:
    """Build the histogram for a small domain, if these terms select Laplace noise for it."""
    if terms is None or domain.size > _LARGEST_HISTOGRAM or optimize_for == "values":
        return None
    histogram = TreeSpec.histogram(domain)
    is_laplace = decided(histogram, terms).noise is Noise.LAPLACE and why_not_laplace(histogram, terms) is None
    return histogram if is_laplace else None


def _over_histogram(layout: RankedLayout, histogram: TreeSpec, terms: Any, *, search: bool = False) -> float:
    """Compute a layout's noise relative to a histogram, or infinity if the layout cannot have this noise.

    Noise is the rank error as a share of the total, and for searches the weight at which values are found.
    """

    def noise(of: RankedLayout) -> float:
        known = decided(of, terms).under(1)
        if known.noise is Noise.LAPLACE and why_not_laplace(of, known) is not None:
            return math.inf
        return max(width_under(known, of, functools.partial(error, of)), _NO_NOISE)

    def error(of: RankedLayout, at: ReleaseTerms, parameters: Sequence[Fraction]) -> float:
        if search:
            return noise_detection(of, at, parameters).likely
        return noise_rank_deviation(of, parameters, known_total=True)

    return noise(layout) / noise(histogram)


def with_factor(domain: Domain) -> RankedLayout:
    """Build the rank layout with a square-root factorization: over all values if possible, otherwise above a tree."""
    return FactorizationSpec(domain) if domain.size <= MAX_FACTOR_SIZE else TreeSpec.for_ranks(domain)


def why_tree(bounds: ContributionLimit, *, over_time: bool) -> str:
    """Explain why a domain needs a tree although a factorization is closer at equal noise. Empty if it does not."""
    if over_time:
        return "because timeline rows have no room for a square-root factorization"
    if bounds.has_norm and bounds.least.total_weight is None:
        return "because an L2 norm does not bound the rows of a square-root factorization"
    if bounds.least.squared_length > _MOST_WEIGHT**2:
        return "because a square-root factorization has no room for such weights"
    return ""


def layout_in_words(
    layout: RankedLayout, optimize_for: Purpose, why: str = "", terms: ReleaseTerms | None = None
) -> str:
    """Explain the chosen layout and compare its noise with the others, for a plan."""
    histogram, chosen = _with_laplace(layout.domain, optimize_for, terms), "a histogram with Laplace noise"
    noises: dict[str, float] = {}
    for name, other in _layouts(layout.domain, optimize_for).items():
        if layout == histogram:
            noises[name] = _over_histogram(other, layout, terms)
        elif other == layout:
            chosen = name
        else:
            noises[name] = _predicted(other, optimize_for) / _predicted(layout, optimize_for)
    if histogram is not None and layout != histogram:
        noises["a histogram with Laplace noise"] = 1 / _over_histogram(layout, histogram, terms)
    of_what = "weights of single values" if optimize_for == "values" else optimize_for
    words = "".join(f"; {name} {_beside(noise)}" for name, noise in noises.items())
    return f"{chosen}, for {of_what}{f', {why}' if why else ''}{words}"


def search_in_words(spec: TreeSpec, terms: ReleaseTerms) -> str:
    """Explain the layout for a search and its alternative, for a plan."""
    if spec.domain.size > USUAL_SIZE:
        return f"a tree for searches, because a histogram has room for at most {USUAL_SIZE:,} values"
    tree = TreeSpec.for_search(spec.domain)
    if len(tree.levels) == 1:
        return "a histogram, one counter for each value"
    noise = _over_histogram(tree, spec, terms, search=True)
    found = f"{tree.cells * BYTES_PER_COUNTER:,} bytes, {_beside(noise, 'detection limit')}"
    return f"a histogram, one counter for each value; a tree for searches, {found}"


def _beside(noise: float, of_what: str = "noise") -> str:
    return f"has {noise:.2f} times this {of_what} at equal bounds" if noise < math.inf else "needs a delta"


def even_records(layout: RankedLayout, max_norm: Fraction) -> int:
    """Count the records per person that count in full under a norm, if their values are spread evenly."""
    bounds = NormBound(1)
    lengths, most = UnitLengths(SketchInput(layout, bounds), bounds), max_norm**2
    low, high = 1, min(layout.domain.size, _MOST_EVEN) + 1
    while high - low > 1:
        middle = (low + high) // 2
        values = np.linspace(0, layout.domain.size - 1, middle).astype(np.uint64)
        rows = net(pa.table({"unit": np.zeros(middle, np.int64), "item": values, "weight": np.ones(middle, np.int64)}))
        (square,) = lengths.squares(lengths.in_parts(rows)).sum(axis=0) / lengths.denominator(rows)
        low, high = (middle, high) if square <= most else (low, middle)
    return low


def _layouts(domain: Domain, optimize_for: Purpose) -> dict[str, RankedLayout]:
    found: dict[str, RankedLayout] = {}
    if domain.size <= USUAL_SIZE:
        found["a square-root factorization"] = FactorizationSpec(domain)
    found["a plain tree"] = TreeSpec.for_memory(domain)
    if USUAL_SIZE < domain.size <= _MOST_BELOW_FACTOR and optimize_for != "values":
        found["a tree below a square-root factorization"] = TreeSpec.for_ranks(domain)
    if optimize_for == "values":
        searched = search_layout(domain)
        found["a histogram" if searched.is_histogram else "a tree for searches"] = searched
    return found


def _predicted(layout: RankedLayout, optimize_for: Purpose) -> float:
    """Predict the root mean square error from noise alone, in units of Delta / sqrt(2 rho)."""
    tables = raw_type(layout).tables(layout)
    noises = [Fraction(table.cells_per_item) / table.share for table in tables]
    if optimize_for != "values":
        return noise_rank_deviation(layout, noises)
    if isinstance(layout, FactorizationSpec):
        return factor_value_deviation(layout, noises)
    spread, above = 0.0, 0.0
    for level, noise in zip(layout.levels, noises, strict=True):
        own, children = float(noise) * median_variance(level.depth), 1 << level.bits
        above = spread = own * (1 - 1 / children) + above / children**2 if above else own
    return math.sqrt(spread)


def _usual(counted: Any, terms: ReleaseTerms, *, search: bool) -> Any:
    """Select the default layout for a domain, or keep a spec. Reject anything else."""
    if not hasattr(counted, "domain") or (counted.domain is counted and not counted.is_ordered):
        known = "a SketchSpec, ListedItems, FactorizationSpec, TreeSpec or a Domain"
        words = f"must be {known}, got {type(counted).__name__}. For text, plan a ReleaseSpec of ThresholdedCounts"
        raise ArgumentTypeError("spec", words, "E503")
    if counted.domain is not counted:
        return counted
    if search:
        return search_layout(counted)
    over_time = terms.privacy_unit.over_horizon
    return layout_of(
        counted, needs_tree=bool(why_tree(terms.bounds, over_time=over_time)), terms=None if over_time else terms
    )
