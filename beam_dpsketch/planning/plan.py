"""A release before it is made: what it promises, and what to expect of it, in lines of words and numbers.

Each kind of release contributes its lines: `sketch_plan.py` those of sketches, `kinds/` those of other kinds. The lines
of the promise, and of noise over time, are alike for all kinds and are here.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.answers.estimators.lost_weight import told_units
from beam_dpsketch.answers.estimators.over_time import decoder_of
from beam_dpsketch.noise.calibration import Calibration, calibrate
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.over_time.binned import BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import MAX_DENSE, RowMechanism
from beam_dpsketch.privacy.side_counters import WEIGHT
from beam_dpsketch.privacy.terms import ReleaseTerms, RowTerms
from beam_dpsketch.statement import statement_text
from beam_dpsketch.statement.showing import html_table
from beam_dpsketch.words import round_up, shown_plainly

MAX_PLANNED = 1 << 14  # longer horizons take seconds


class Line(NamedTuple):
    """A part of a plan.

    Attributes:
      words: what is printed, in one line or several; empty for a number that is not known, or that other words contain.
      name: the attribute of the plan that is the number; empty for words alone.
      number: a number, or several with names of their own; `None` if it is not known.
      fields: the numbers in `as_dict`, by name, as plain values.
    """

    words: str
    name: str = ""
    number: Any = None
    fields: Mapping[str, Any] = {}


def numbered(name: str, number: Any, words: str = "") -> Line:
    """Return the line of a number that `as_dict` contains under the same name."""
    return Line(words, name, number, {name: _plain(number)})


@shown_plainly
@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A release before it is made, with what to expect of it; `print` it.

    Every plan has the attributes below. Further attributes are numbers of its lines, which depend on the kind. They are
    `None` where they are not known.

    Sketches (frequencies, quantiles and searches for the most frequent values):

    * `layout`: why the layout was chosen, in words; empty if it was given.
    * `memory`: bytes of the counters of all keys, at 4 a counter.
    * `even_records`: of quantiles under a norm, how many records of a person count in full if their values are spread
      evenly over the domain.
    * `rank_deviation`: of quantiles, the expected root mean square rank error, by data: "any" for trees of exact
      levels, otherwise by reference distribution.
    * `rank_deviation_known_total`: the same where the total weight is public; of trees of exact levels only.
    * `value_errors`: how wrong quantiles are in values, on made-up data of the shape that `typical` describes.
    * `detection`: of searches, from which weight on the noise alone lets values be found.
    * `detection_on_data`: the same with collisions, on made-up data.
    * `half_width`: of frequencies, half the width of a 95 % interval from the noise alone.
    * `errors`: the errors of frequencies with collisions, on made-up data; `None` for listed items, which have none.
    * `is_mostly_noise`: whether answers would be wrong by a tenth of the weight on any data, or a search would find
      nothing.
    * `advice`: what another bound or epsilon would give, and how many people a wanted error needs, from the noise
      alone; `None` for continual release.

    Grouped counts:

    * `items`: from which count on items are released, and how.
    * `by_bound`: the smallest counts that are released with probability 0.99, by `max_norm` or `max_per_key`; empty
      where one record is protected.
    * `crossover`: as in `advice`.
    * `half_width`: as above.

    Statistics:

    * `count`: half the width of a 95 % interval of the count.
    * `mean`: the same of the mean of n records, in the middle of the clip bounds, and at an end; `None` if counters
      have no room.
    * `by_bound`: half widths of the count by `max_norm` or `max_per_key`; empty where one record is protected.

    Metrics:

    * `errors`: the name and the size of the error of each metric, from the noise alone.

    Attributes:
      spec: the sketch.
      terms: what the release spends, whom it protects, how much of each may count, and in how many windows.
      n: the expected weight of one release; `None` if it is not known.
      keys: how many output keys there are; `None` without, or where they are not known.
      sigma_squared: the noise parameter of each table of counters; under an `AutoNorm`, that of a norm of 1.
      foolish: what is foolish about epsilon, delta and the room of counters, in words.
      about: lines about what is released.
      noisy: what has the noise, in words.
      promised: lines that the kind adds to the promise.
      expected: lines about answers.
      apart: over a horizon, the terms of a release of its own for each window, under the same bounds; else `None`.
    """

    spec: Any
    terms: ReleaseTerms
    n: int | None
    keys: int | None
    sigma_squared: tuple[Fraction, ...]
    foolish: list[str]
    about: tuple[Line, ...] = dataclasses.field(repr=False)
    noisy: str = dataclasses.field(repr=False)
    promised: tuple[Line, ...] = dataclasses.field(default=(), repr=False)
    expected: tuple[Line, ...] = dataclasses.field(default=(), repr=False)
    apart: ReleaseTerms | None = dataclasses.field(default=None, repr=False)

    @property
    def lines(self) -> list[Line]:
        """All of the plan, in order."""
        sigmas = {"sigma": [math.sqrt(each) for each in self.sigma_squared]}
        noise = Line(f"Noise: {_noise_in_words(self.terms, self.sigma_squared)} on {self.noisy}.", fields=sigmas)
        promise = Line(privacy_line(self.terms), fields=_terms_fields(self.terms))
        warned = numbered("warnings", self.foolish, "\n".join(f"Warning: {words}." for words in self.foolish))
        bounds = Line(f"Contribution: {self.terms.asked.words(self.terms)}.")
        windows = (Line(words) for words in _windows(self))
        return [*self.about, noise, promise, warned, bounds, *self.promised, *windows, *self.expected]

    def __getattr__(self, name: str) -> Any:
        part = vars(self).get  # a plan that is being copied has no lines yet
        for line in (*part("about", ()), *part("promised", ()), *part("expected", ())):
            if line.name == name:
                return line.number
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain Python values, with `None` for what is not known."""
        return {name: value for line in self.lines for name, value in line.fields.items()}

    def __str__(self) -> str:
        return "\n".join(line.words for line in self.lines if line.words)

    def _repr_html_(self) -> str:
        return html_table(([line] for line in str(self).splitlines()), caption="Plan")


def _plain(value: Any) -> Any:
    """Convert a number to plain Python values, with names if it has several."""
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, Fraction) else value


def _terms_fields(terms: ReleaseTerms) -> dict[str, Any]:
    """List the loss, the unit and its bounds, as plain Python values."""
    return {
        "rho": float(terms.privacy.rho),
        "epsilon": terms.epsilon,
        "delta": terms.shown[1],
        "noise": terms.noise.value,
        "keys_delta": float(terms.delta) or None,
        "relation": terms.privacy.relation.name,
        "protected": terms.unit.value,
        "bounds": {name: _plain(value) for name, value in terms.asked.as_dict().items()},
        "windows_of_unit": terms.window_count,
    }


def privacy_line(terms: ReleaseTerms) -> str:
    """Spell the loss, rounded up, and the privacy unit."""
    return f"Privacy: {loss_in_words(terms)}; protected: {terms.unit.value}."


def loss_in_words(terms: ReleaseTerms) -> str:
    """Spell epsilon and delta, rounded up, with rho unless noise is Laplace, and how neighboring data sets differ."""
    rho = f"rho = {round_up(terms.privacy.rho, 6):g}"
    loss = statement_text.loss_in_words(terms.loss, terms.privacy.shown_delta, rho)
    return f"{loss}, for {statement_text.change_in_words(terms)}"


def _noise_in_words(terms: ReleaseTerms, parameters: Sequence[Fraction]) -> str:
    """Name the noise, with the sigma of Gaussians or the scale of a Laplace; of several tables, its span."""
    noise = terms.noise
    kind = "" if noise is Noise.GAUSSIAN else f"{noise.value} with "
    return f"{kind}{noise.measure} = {_span([noise.spread(each) for each in parameters])}"


def under_norm(terms: ReleaseTerms) -> str:
    """Name the norm that the noise of a plan is for, if the data choose the norm; else nothing."""
    return "" if terms.norm is None else " under a norm of 1, and in proportion under the norm that is chosen"


def paid_in_words(terms: ReleaseTerms, share: Fraction | None = None) -> str:
    """Name the share of the loss that pays for the counts; `None` means all that is left."""
    share = terms.share_left if share is None else share
    part = "all" if share == 1 else str(share)
    return f"{part} of {terms.privacy.currency} pays"


def aside_line(calibration: Calibration) -> str:
    """Spell the noise of side counters and of the clipping histogram; empty if it is not known, or that of rows."""
    terms = calibration.terms.under(1)
    if calibration.terms.norm is not None or isinstance(terms, RowTerms):  # noise is not known yet, or of rows
        return ""
    notes = calibration.notes
    said = [f"{note.words} ±{-note.interval(0.95).lower:,.3g}" for note in notes]
    if terms.total_cells is not None and not any(WEIGHT in counter.names for counter in terms.counters):
        said.append("the total from the counters themselves (no share of the budget)")
    if calibration.lost:
        told = told_units(math.sqrt(calibration.lost[0].parameter), terms.noise)
        said.append(f"clipping, which is estimated from roughly {told:,.0f} clipped {terms.unit.noun}s on")
    return f"Summary counts: {', '.join(said)}." if said else ""


def bound_in_words(terms: ReleaseTerms) -> str:
    """Name the bound for which plans list other values."""
    return "norm" if terms.bounds.has_norm else "records kept of each"


def order_line(terms: ReleaseTerms, crossover: float) -> str:
    """Spell the weight from which a norm of the other order gives narrower intervals."""
    other, side, few = (1, "below", "up to") if terms.bounds.total_weight is None else (2, "above", "more than")
    return (
        f"Hint: a norm of order {other} is more accurate if the total weight of heavy people is {side} "
        f"{crossover:.2g} times their L2 norm, as with records spread evenly over {few} {int(crossover**2)} items."
    )


def copies_in_words(keys: int | None) -> str:
    """Spell the number of keys with a release each, if it is known; else nothing."""
    return f" for each of {keys} keys" if keys else ""


def _windows(plan: Plan) -> Iterator[str]:
    """List the windows that rho covers; of rows over time, their number, the noise of answers, and their gain."""
    spec, terms, apart = plan.spec, plan.terms, plan.apart
    if not isinstance(terms, RowTerms):
        if terms.window_count > 1:
            paid = (
                f"{terms.privacy.currency} and delta cover"
                if terms.counts_items
                else f"{terms.privacy.currency} covers"
            )
            period = " of each period" if terms.period_micros else ""
            yield f"Windows: {paid} the {terms.window_count} windows{period} in which a unit may count."
        return
    mechanism, sigmas = terms.mechanism, [math.sqrt(each) for each in plan.sigma_squared]
    copies = copies_in_words(plan.keys)
    yield f"Rows: {mechanism.row_count} over {mechanism.windows} windows{copies}, rho for all of them together."
    if (noise := noise_of_answers(mechanism)) is not None:
        window, half, every = (_span([each * sigma for sigma in sigmas]) for each in noise)
        middle = mechanism.windows // 2
        yield (
            f"Answers at the end: sigma = {window} on each counter of window {middle}, {half} of the first {middle}, "
            f"{every} of all {mechanism.windows}."
        )
    if apart is not None and isinstance(mechanism, BinnedRoot) and mechanism.windows <= MAX_DENSE:
        alone, who, growth = [math.sqrt(each) for each in calibrate(spec, apart.under(1))], "The timeline", 1.0
        windows = min(math.floor(terms.bounds.squared_length), mechanism.windows)
        if terms.bounds.has_norm and terms.window_count == 1 and windows > 1:
            who = f"With a norm that keeps any person with a record in each of {windows} windows in full, the timeline"
            growth = math.sqrt(windows / mechanism.squared_reach(windows))
        ranges = _closer_from(mechanism, growth * math.hypot(*alone) / math.hypot(*sigmas))
        closer = f"from ranges of {ranges} windows on" if ranges else "for no range of windows"
        yield f"A release of its own for each window: sigma = {_span(alone)} on each counter. {who} is closer {closer}."


def listed(errors: Sequence[tuple[float | Fraction, float]]) -> str:
    """List each error with its setting."""
    return ", ".join(f"{in_digits(error)} at {in_digits(setting)}" for setting, error in errors)


def in_digits(number: float | Fraction) -> str:
    """Round to three digits, or without decimals."""
    return f"{float(number):,.0f}" if number >= 100 else f"{float(number):.3g}"


def _span(sigmas: Sequence[float]) -> str:
    """Spell the least and the largest number, or one number if they are equal."""
    return " to ".join(dict.fromkeys(f"{each:.4g}" for each in (min(sigmas), max(sigmas))))


@functools.lru_cache(maxsize=8)
def _closer_from(mechanism: RowMechanism, alone: float) -> int | None:
    """Return from how many windows on a range in the middle has less noise than releases of its windows, if from any.

    `alone` is the sigma of a release of one window, over that of rows.
    """
    lengths = range(1, mechanism.windows + 1)

    def is_closer(length: int) -> bool:
        first = (mechanism.windows - length) // 2
        return _sigma(mechanism, first, first + length - 1) < alone * math.sqrt(length)

    found = bisect.bisect_left(lengths, True, key=is_closer)
    return found + 1 if found < len(lengths) else None


@functools.lru_cache(maxsize=8)
def noise_of_answers(mechanism: RowMechanism) -> tuple[float, float, float] | None:
    """Return the sigma of answers when the horizon ends, over that of rows; `None` for very long horizons.

    They are about the middle window, all windows before it, and all windows.
    """
    windows, middle = mechanism.windows, mechanism.windows // 2
    if windows > MAX_PLANNED:
        return None
    ranges = (middle, middle), (0, middle - 1), (0, windows - 1)
    one, half, every = (_sigma(mechanism, *each) for each in ranges)
    return one, half, every


def _sigma(mechanism: RowMechanism, first: int, last: int) -> float:
    """Return the sigma of a range of windows when the horizon ends, over that of rows."""
    coefficients = np.zeros(mechanism.windows)
    coefficients[first : last + 1] = 1.0
    return math.sqrt(decoder_of(mechanism, lambda number: np.zeros(0)).variance(coefficients))
