"""Plans: privacy loss and expected accuracy before a release, as lines with text and numbers.

A printed plan has the terms first, each after its label, and then the expected accuracy and what would change it.

Each kind of release contributes its lines: `sketch_plan.py` for sketches, and `kinds/` for other kinds. Lines about
privacy loss, and about noise in continual releases, are common to all kinds and are here.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.answers.estimators.lost_weight import told_units
from beam_dpsketch.answers.estimators.over_time import decoder_of
from beam_dpsketch.noise.calibration import Calibration, calibrate
from beam_dpsketch.privacy.over_time.binned import BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import MAX_DENSE, RowMechanism
from beam_dpsketch.privacy.summary_counts import WEIGHT
from beam_dpsketch.privacy.terms import ReleaseTerms, RowTerms
from beam_dpsketch.statement import statement_text
from beam_dpsketch.statement.showing import html_table
from beam_dpsketch.words import round_up, shown_plainly

MAX_PLANNED = 1 << 14  # longer horizons take seconds
_LABEL, _SETTING, _WIDTH = 14, 36, 120


class Line(NamedTuple):
    """Part of a plan.

    Attributes:
      words: the printed text, possibly several lines. Empty for an unknown number, or a number that another line
        contains.
      name: the plan attribute for the number. Empty for text alone.
      number: a number, or several named numbers, or `None` if unknown.
      fields: the numbers in `as_dict`, by name, as plain values.
      label: the label of a term, or empty for a line about accuracy.
    """

    words: str
    name: str = ""
    number: Any = None
    fields: Mapping[str, Any] = {}
    label: str = ""

    @property
    def text(self) -> str:
        """The words after the label, folded into aligned lines."""
        indent = _LABEL if self.label else 0
        folded = [part for line in self.words.splitlines() for part in _folded(line, _WIDTH - indent)]
        return f"{self.label:<{indent}}" + ("\n" + " " * indent).join(folded)


def numbered(name: str, number: Any, words: str = "", label: str = "") -> Line:
    """Make a line for a number with the same name in `as_dict`."""
    return Line(words, name, number, {name: _plain(number)}, label)


def _folded(line: str, width: int) -> Iterator[str]:
    """Fold a line between clauses if possible, otherwise between words, but not before a percent sign."""
    folded = ""
    for clause in re.split("(?<=; )", line):
        if folded and len(folded + clause.rstrip()) > width:
            yield from _wrapped(folded, width)
            folded = ""
        folded += clause
    yield from _wrapped(folded, width)


def _wrapped(line: str, width: int) -> list[str]:
    words = line.rstrip().replace(" %", "\xa0%")
    wrapped = textwrap.wrap(words, width, break_long_words=False, break_on_hyphens=False)
    return [each.replace("\xa0", " ") for each in wrapped]


def in_table(heading: str, rows: Iterable[tuple[str, str]]) -> str:
    """Format rows of a setting and its error below a heading."""
    return "\n".join([heading, *(f"  {setting:<{_SETTING}}{error}" for setting, error in rows)])


@shown_plainly
@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Privacy loss and expected accuracy before a release is made. `print` it.

    Every plan has the attributes at the end. Further attributes depend on the kind, and are `None` if unknown.

    Sketches (frequencies, quantiles and searches for the most frequent values):

    * `layout`: the reason for the chosen layout, in words. Empty for a given layout.
    * `memory`: bytes for the counters of all keys, at 4 bytes each.
    * `even_records`: for quantiles under a norm, how many records per person count in full if their values spread
      evenly over the domain.
    * `rank_deviation`: for quantiles, the expected root mean square rank error by data: "any" for trees with exact
      levels, otherwise by reference distribution.
    * `rank_deviation_known_total`: the same error if the total weight is public, only for trees with exact levels.
    * `value_errors`: quantile errors in values, on simulated data with the shape in `typical`.
    * `detection`: for searches, the weight from which values are found in the presence of noise alone.
    * `detection_on_data`: the same weight with collisions, on simulated data.
    * `half_width`: for frequencies, the half-width for 95 % intervals from the noise alone.
    * `errors`: frequency errors with collisions, on simulated data. `None` for listed items, which have no collisions.
    * `is_mostly_noise`: whether errors exceed 10 % of the weight on all data, or a search would find no values.
    * `advice`: the errors at other bounds or epsilons, and the number of people for a target error, from the noise
      alone. `None` for continual release.

    Thresholded counts:

    * `items`: the count from which items are released, and the selection rule.
    * `by_bound`: the smallest counts that are released with probability 0.99, by `max_norm` or `max_records`. Empty if
      the privacy unit is a record.
    * `crossover`: as in `advice`.
    * `half_width`: as for sketches.

    Statistics:

    * `count`: the half-width for a 95 % interval.
    * `mean`: the half-width for a mean over n records, in the middle of the value range and at an end. `None` if
      counters have no room.
    * `by_bound`: half-widths for the count by `max_norm` or `max_records`. Empty if the privacy unit is a record.

    Metrics:

    * `errors`: the name and size of each metric's error, from the noise alone.
    * `by_bound`: these errors of each metric by `max_norm` or `max_records`. Empty if the privacy unit is a record.

    Attributes:
      spec: the sketch.
      terms: the privacy loss, privacy unit, contribution bounds and number of windows.
      n: the expected weight of a release, or `None` if unknown.
      keys: the number of output keys, or `None` without keys or if unknown.
      sigma_squared: the noise parameter per table of counters. For an `AutoNorm`, the parameter at a norm of 1.
      warnings: warnings about epsilon, delta and the room in counters, in words.
      about: lines about the released data.
      noisy: the numbers that receive noise, in words.
      promised: lines that the kind adds to the guarantee.
      expected: lines about answers.
      apart: for a horizon, the terms for a separate release per window under the same bounds, otherwise `None`.
    """

    spec: Any
    terms: ReleaseTerms
    n: int | None
    keys: int | None
    sigma_squared: tuple[Fraction, ...]
    warnings: list[str]
    about: tuple[Line, ...] = dataclasses.field(repr=False)
    noisy: str = dataclasses.field(repr=False)
    promised: tuple[Line, ...] = dataclasses.field(default=(), repr=False)
    expected: tuple[Line, ...] = dataclasses.field(default=(), repr=False)
    apart: ReleaseTerms | None = dataclasses.field(default=None, repr=False)

    @property
    def lines(self) -> list[Line]:
        """All lines in order."""
        sigmas = {"sigma": [math.sqrt(each) for each in self.sigma_squared]}
        noisy = f"{_noise_in_words(self.terms, self.sigma_squared)} on {self.noisy}"
        noise = Line(noisy, fields=sigmas, label="Noise")
        protects = Line(self.terms.privacy_unit.value, label="Protects")
        promise = Line(loss_in_words(self.terms), fields=_terms_fields(self.terms), label="Privacy")
        warned = numbered("warnings", self.warnings, "\n".join(self.warnings), "Warning")
        bounds = Line(self.terms.asked.words(self.terms), label="Contribution")
        windows = (Line(words, label=label) for label, words in _windows(self))
        return [protects, promise, warned, bounds, *self.about, noise, *self.promised, *windows, *self.expected]

    def __getattr__(self, name: str) -> Any:
        part = vars(self).get  # a plan that is being copied has no lines yet
        for line in (*part("about", ()), *part("promised", ()), *part("expected", ())):
            if line.name == name:
                return line.number
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def as_dict(self) -> dict[str, Any]:
        """Convert the plan to plain Python values, with `None` for unknown numbers."""
        return {name: value for line in self.lines for name, value in line.fields.items()}

    def __str__(self) -> str:
        terms = "\n".join(line.text for line in self.lines if line.label and line.words)
        return "\n\n".join([terms, *(line.text for line in self.lines if line.words and not line.label)])

    def _repr_html_(self) -> str:
        shown = sorted((line for line in self.lines if line.words), key=lambda line: not line.label)
        rows = (
            ["" if number else line.label, words]
            for line in shown
            for number, words in enumerate(line.words.splitlines())
        )
        return html_table(rows, caption="Plan")


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, Fraction) else value


def _terms_fields(terms: ReleaseTerms) -> dict[str, Any]:
    return {
        "rho": float(terms.privacy.rho),
        "epsilon": terms.epsilon,
        "delta": terms.shown[1],
        "noise": terms.noise.value,
        "keys_delta": float(terms.delta) or None,
        "relation": terms.privacy.relation.name,
        "protected": terms.privacy_unit.value,
        "bounds": {name: _plain(value) for name, value in terms.asked.as_dict().items()},
        "windows_of_unit": terms.window_count,
    }


def loss_in_words(terms: ReleaseTerms) -> str:
    """Format epsilon and delta, rounded up, with rho unless noise is Laplace, and the neighboring relation."""
    rho = f"rho = {round_up(terms.privacy.rho, 6):g}"
    loss = statement_text.loss_in_words(terms.loss, terms.privacy.reported_delta, rho)
    return f"{loss}, for {statement_text.change_in_words(terms)}"


def _noise_in_words(terms: ReleaseTerms, parameters: Sequence[Fraction]) -> str:
    """Format the noise with its sigma or Laplace scale. Several tables give a range."""
    noise = terms.noise
    spread = _span([noise.spread(each) for each in parameters])
    return f"{noise.value.removeprefix('a ')}, {noise.measure} = {spread}"


def under_norm(terms: ReleaseTerms) -> str:
    """Name the norm to which the planned noise refers, if it is chosen from the data. Otherwise empty."""
    return "" if terms.norm is None else ", for a norm of 1 and proportional to the norm"


def paid_in_words(terms: ReleaseTerms, share: Fraction | None = None) -> str:
    """Format the budget share of the counts. `None` is the remaining share."""
    share = terms.share_left if share is None else share
    part = "all" if share == 1 else str(share)
    return f"budget share: {part} of {terms.privacy.currency}"


def aside_line(calibration: Calibration) -> str:
    """Format the noise for summary counts and clipping. Empty for unknown noise, and for timeline rows."""
    terms = calibration.terms.under(1)
    if calibration.terms.norm is not None or isinstance(terms, RowTerms):  # unknown noise, or timeline rows
        return ""
    notes = calibration.notes
    said = [f"{note.words} ±{in_digits(-note.interval(0.95).lower)}" for note in notes]
    if terms.total_cells is not None and not any(WEIGHT in counter.names for counter in terms.counters):
        said.append("the total from the counters themselves, without a budget share")
    if calibration.lost:
        told = told_units(math.sqrt(calibration.lost[0].parameter), terms.noise)
        said.append(f"clipping can be estimated once roughly {told:,.0f} {terms.privacy_unit.noun}s are clipped")
    return "; ".join(said)


def bound_in_words(terms: ReleaseTerms) -> str:
    """Name the bound for which plans list alternatives."""
    return "norm" if terms.bounds.has_norm else "max_records"


def order_line(terms: ReleaseTerms, crossover: float) -> str:
    """Format the weight from which the other norm gives narrower intervals."""
    other, side, few = (1, "below", "at most") if terms.bounds.total_weight is None else (2, "above", "more than")
    items = int(crossover**2)
    return (
        f"Hint: an L{other} norm is more accurate if the total weight of heavy privacy ids is {side} "
        f"{crossover:.2g} times "
        f"their L2 norm,\nwhich is true for records spread evenly over {few} {items} item{'s' * (items != 1)}."
    )


def copies_in_words(keys: int | None) -> str:
    """Format the number of keys with a release each. Empty if unknown."""
    return f" for each of {keys} keys" if keys else ""


def _windows(plan: Plan) -> Iterator[tuple[str, str]]:
    """Describe the windows that rho covers, with labels. For timeline rows, describe their number, noise and gain."""
    spec, terms, apart = plan.spec, plan.terms, plan.apart
    if not isinstance(terms, RowTerms):
        if terms.window_count > 1:
            paid = (
                f"{terms.privacy.currency} and delta cover"
                if terms.counts_items
                else f"{terms.privacy.currency} covers"
            )
            period = " of each period" if terms.period_micros else ""
            yield "Windows", f"{paid} the {terms.window_count} windows{period} in which a privacy id may count"
        return
    mechanism, sigmas = terms.mechanism, [math.sqrt(each) for each in plan.sigma_squared]
    copies = copies_in_words(plan.keys)
    yield "Rows", f"{mechanism.row_count} over {mechanism.windows} windows{copies}; rho covers all of them together"
    if (noise := noise_of_answers(mechanism)) is not None:
        window, half, every = (_span([each * sigma for sigma in sigmas]) for each in noise)
        middle = mechanism.windows // 2
        yield (
            "At the end",
            f"sigma = {window} per counter of window {middle}, {half} of the first {middle}, {every} of all "
            f"{mechanism.windows}",
        )
    if apart is not None and isinstance(mechanism, BinnedRoot) and mechanism.windows <= MAX_DENSE:
        alone, who, growth = [math.sqrt(each) for each in calibrate(spec, apart.under(1))], "the timeline", 1.0
        windows = min(math.floor(terms.bounds.squared_length), mechanism.windows)
        if terms.bounds.has_norm and terms.window_count == 1 and windows > 1:
            who = f"with a norm that never clips one record in each of {windows} windows, the timeline"
            growth = math.sqrt(windows / mechanism.squared_reach(windows))
        ranges = _closer_from(mechanism, growth * math.hypot(*alone) / math.hypot(*sigmas))
        closer = f"for ranges of at least {ranges} windows" if ranges else "for no range of windows"
        yield (
            "Alternative",
            f"a separate release per window: sigma = {_span(alone)} per counter; {who} is more accurate {closer}",
        )


def alternatives(sign: str, errors: Mapping[str, Sequence[tuple[float | Fraction, float]]], heading: str) -> str:
    """Format the errors at other settings, by the name of the setting."""
    rows = {
        name: "   ".join(f"{in_digits(setting)}: {sign}{in_digits(error)}" for setting, error in each)
        for name, each in errors.items()
        if each
    }
    width = max(map(len, rows), default=0) + 2
    return "\n".join([heading, *(f"  {name:<{width}}{row}" for name, row in rows.items())])


def in_digits(number: float | Fraction) -> str:
    """Round to three digits, or to a whole number from 100 on."""
    return f"{float(number):,.0f}" if number >= 100 else f"{float(number):.3g}"


def _span(sigmas: Sequence[float]) -> str:
    """Format the smallest and largest numbers, or a single number if they are equal."""
    return " to ".join(dict.fromkeys(f"{each:.4g}" for each in (min(sigmas), max(sigmas))))


@functools.lru_cache(maxsize=8)
def _closer_from(mechanism: RowMechanism, alone: float) -> int | None:
    """Find the shortest range in the middle with less noise than separate releases per window, if there is any.

    `alone` is sigma for a separate release, divided by sigma for rows.
    """
    lengths = range(1, mechanism.windows + 1)

    def is_closer(length: int) -> bool:
        first = (mechanism.windows - length) // 2
        return _sigma(mechanism, first, first + length - 1) < alone * math.sqrt(length)

    found = bisect.bisect_left(lengths, True, key=is_closer)
    return found + 1 if found < len(lengths) else None


@functools.lru_cache(maxsize=8)
def noise_of_answers(mechanism: RowMechanism) -> tuple[float, float, float] | None:
    """Compute the sigma of answers at the end of the horizon, relative to rows, or `None` for very long horizons.

    The answers cover the middle window, all windows before it, and all windows.
    """
    windows, middle = mechanism.windows, mechanism.windows // 2
    if windows > MAX_PLANNED:
        return None
    ranges = (middle, middle), (0, middle - 1), (0, windows - 1)
    one, half, every = (_sigma(mechanism, *each) for each in ranges)
    return one, half, every


def _sigma(mechanism: RowMechanism, first: int, last: int) -> float:
    """Compute the sigma for a range of windows at the end of the horizon, relative to rows."""
    coefficients = np.zeros(mechanism.windows)
    coefficients[first : last + 1] = 1.0
    return math.sqrt(decoder_of(mechanism, lambda number: np.zeros(0)).variance(coefficients))
