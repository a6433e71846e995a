"""Composition of privacy losses, conversion to epsilon at a delta, and warnings about unreasonable losses.

The loss of a mechanism is rho, its zero-concentrated differential privacy, and the delta of rare exceptions. Its rho
belongs to Gaussian noise, or to pure parts, which have an epsilon. Epsilon follows from the Gaussian curve
(`gaussian_curve`), rounded up. For sums with pure parts, `zcdp` has the curve for all mechanisms with this rho.

A mechanism is d-approximate rho-zCDP if, except with probability d on each of the two inputs, it is rho-zCDP (Bun and
Steinke 2016, arXiv:1605.02065, section 8). Let P = (1 - d) P' + d P'' be its output, and the same with Q. If P' and Q'
are (epsilon, c)-DP, then P(S) <= (1 - d)(e^epsilon Q'(S) + c) + d <= e^epsilon Q(S) + (1 - d) c + d. Hence d is
subtracted from delta first, and c = (delta - d) / (1 - d) remains for the conversion.

Composition. Guarantee: a mechanism with loss (rho, delta) is delta-approximate rho-zCDP for a unit under a relation.
For releases with independent noise whose losses are valid for each:

* `plus`: all of them together lose the sum, if a unit may be in each.
* `larger`: they lose the larger rho and the larger delta, if no unit is in both inputs.
* The releases of a run are a single mechanism. Its noise is calibrated to the largest change of all its counters
  together by a unit. Hence all releases, or a subset, lose as much as the run loses, once for each draw of the most
  frequently drawn part.

Proof of the sum. Bun and Steinke 2016 (arXiv:1605.02065), Lemma 7 and section 8: rho adds. For Gaussian noise, mu =
sqrt(2 rho) composes as the root of summed squares, hence rho adds as well, and the sum has a Gaussian curve
(`mechanism`). The delta of the composition is 1 - (1 - d)(1 - d'), because each mechanism is independent of the other's
exceptions. This remains true if a later release depends on earlier releases.

The kind of a release, and its loss, must not depend on earlier releases. They may depend on them if rho and delta have
fixed caps (Whitehouse et al. 2023, arXiv:2203.05481), or if the sum of pure epsilons has a cap (Rogers et al. 2016,
arXiv:1605.08294). A single epsilon at a single delta caps neither: it trades rho for delta. Suppose that 0.7 of rho at
epsilon = 2 and delta = 1e-6 is spent. An analyst who then spends the rest of rho, or the rest of delta, depending on
earlier results, can lose 1.98e-6 at epsilon = 2.

Proof of the larger. If a unit is added or removed, it is in a single input, and the output for the other does not
change. The same is true if a unit is replaced within an input. Its replacement may also enter the other input: a unit
leaves the first, another enters the second, and both losses add. Each is at most half of its mechanism's loss under a
replacement, hence the sum is at most the larger of the two. Why half? Each part of rho has noise for
`mechanism.change_factor` times a unit's squared contribution, and this factor is at least 2. If the parts for keys and
sketches share a maximum (`selection`), replacing j keys by j others is among its cases, and costs a removal twice. If
this half is valid for two mechanisms, it is valid for their sum and for the larger of both. Hence three inputs, and
combinations of combinations, also lose the largest.

Pure parts. Discrete Laplace noise is epsilon-DP without any delta, and epsilon adds up. It is epsilon^2 / 2-zCDP too
(Bun and Steinke 2016, Proposition 1.4), hence `rho` also covers these parts. For a sum with pure parts, the smaller of
two epsilons is reported: the epsilon for the whole rho, and the pure epsilons plus the epsilon of the rest at the same
delta. Each part, and its data, may depend on earlier outputs. Proof of the second. Let L be the logarithm of the ratio
of probabilities of all outputs, on the two inputs. It is the sum of G, for the rest, and the pure parts, which are at
most E. Then delta at e + E is the mean of max(0, 1 - exp(e + E - L)), over outputs on the first input, hence at most
the mean of max(0, 1 - exp(e - G)). This is the delta at e for two mechanisms that differ in the rest alone: both make
the pure parts of the first input.

The same argument applies to delta. If a unit is added, exceptions are needed on a single input: the input with the
unit. Hence if a unit leaves a mechanism, and another enters the other, each data set has the exceptions of a single
mechanism.

Groups. If any one record is protected, a person with k records is a chain of k neighbors. A mechanism without delta
then loses k^2 rho for the person (Bun and Steinke 2016, Proposition 1.9), and k epsilon if it is pure.

Attack accuracy. An attacker has both inputs, considers them equally likely, sees all outputs, and guesses which input
was used. The best guess is right with probability (1 + t) / 2, where t is the total variation distance between the two
laws of the outputs (Neyman and Pearson). `attack_accuracy` uses the smaller of two bounds on t:

* For Gaussian noise, t is the delta at epsilon 0. For a pure epsilon e, t is at most (exp(e) - 1) / (exp(e) + 1), which
  the discrete Laplace attains. Mechanisms with t and t' together have at most 1 - (1 - t)(1 - t'): couple the outputs
  of the first, which are equal with probability 1 - t, and then the outputs of the second.
* rho-zCDP has a Kullback-Leibler divergence of at most rho (its order 1), hence t is at most sqrt(rho / 2) by Pinsker's
  inequality, and at most sqrt(1 - exp(-rho)) by the inequality of Bretagnolle and Huber (1979).

With exceptions with probability d, t is at most 1 - (1 - d)(1 - t), as the laws are mixtures with the same weights.

The module also converts losses to events for the accountants in `dp_accounting`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.loss import gaussian_curve, zcdp
from beam_dpsketch.words import float_above, round_up

_LARGE_EPSILON, _NOISY_SHARE = 10, 0.1
_FEW, _MANY = 1e3, 1e6
_STEPS = 1 << 256
_ROUND_UP = 1 + 2.0**-40  # exceeds the rounding errors of `attack_accuracy`


class Loss(NamedTuple):
    """Privacy loss of a release, or of several together: delta-approximate rho-zCDP.

    The rho of parts that are not pure belongs to Gaussian noise.

    Attributes:
      rho: zCDP loss of all parts, exact.
      delta: delta of exceptions, exact.
      pure: the sum of epsilon over parts that need no delta, exact.
      pure_rho: their part of rho, the sum of epsilon^2 / 2.

    >>> Loss(Fraction(1, 2)).plus(Loss(Fraction(1, 4))).rho
    Fraction(3, 4)
    """

    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    pure: Fraction = Fraction(0)
    pure_rho: Fraction = Fraction(0)

    @classmethod
    def of_pure(cls, epsilon: Fraction, delta: Fraction = Fraction(0)) -> Loss:
        """Build the loss of epsilon-DP noise with exceptions."""
        rho = epsilon**2 / 2
        return cls(rho, delta, epsilon, rho)

    def plus(self, other: Loss) -> Loss:
        """Add losses if a unit may be in both inputs. Long fractions are rounded up."""
        rest = _short(self._rest + other._rest)
        pure, pure_rho = _short(self.pure + other.pure), _short(self.pure_rho + other.pure_rho)
        return Loss(rest + pure_rho, composed_delta(self.delta, other.delta), pure, pure_rho)

    def larger(self, other: Loss) -> Loss:
        """Combine losses if no unit is in both inputs. The result is also the least loss as large as each."""
        rest = max(self._rest, other._rest)
        pure, pure_rho = max(self.pure, other.pure), max(self.pure_rho, other.pure_rho)
        return Loss(rest + pure_rho, max(self.delta, other.delta), pure, pure_rho)

    @property
    def _rest(self) -> Fraction:
        return self.rho - self.pure_rho

    @property
    def is_pure(self) -> bool:
        """Whether the loss is pure, except for exceptions."""
        return self.pure > 0 and not self._rest

    def shown(self, delta: float) -> tuple[float, float]:
        """Compute the reported epsilon, rounded up, and its delta: a pure loss has an epsilon without this delta.

        Epsilon is infinite if the delta of exceptions is at least this delta.
        """
        if self.is_pure:
            return float_above(self.pure), float_above(self.delta)
        return (math.inf if Fraction(repr(delta)) <= self.delta else self.epsilon(delta)), delta

    def least_epsilon(self, delta: float) -> float:
        """Compute epsilon at this delta, rounded up, or infinity if the delta of exceptions is at least this delta."""
        given = Fraction(repr(float(delta)))
        is_enough = given >= self.delta if self.is_pure else given > self.delta
        return self.epsilon(delta) if is_enough else math.inf

    def epsilon(self, delta: float) -> float:
        """Compute epsilon at this delta, rounded up, or raise if this delta is below the delta of exceptions.

        A pure loss also has an epsilon at the delta of exceptions itself, other losses only above it.
        """
        if self.is_pure and Fraction(repr(float(delta))) == self.delta:
            return float_above(self.pure)
        left = left_of_delta(delta, self.delta)
        rest = gaussian_curve.epsilon(rho=self._rest, delta=left) if self._rest else 0.0
        found = self.pure + Fraction(rest)
        if self.pure:
            found = min(found, Fraction(zcdp.epsilon(rho=self.rho, delta=left)))
        return float_above(found)

    @property
    def attack_accuracy(self) -> float:
        """Upper bound for the accuracy of a guess between two neighboring, equally likely inputs.

        >>> round(Loss.of_pure(Fraction(1)).attack_accuracy, 4), round(Loss(Fraction("0.028")).attack_accuracy, 3)
        (0.7311, 0.547)
        """
        rest, rho = float_above(self._rest), float_above(self.rho)
        kept = 1 - gaussian_curve.delta(rho=rest, epsilon=0.0) if rest else 1.0
        distance = 1 - kept * (1 - math.tanh(float_above(self.pure) / 2))
        distance = min(distance, math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho)))
        distance = 1 - (1 - distance) * (1 - float_above(self.delta))
        return min(1.0, (1 + distance) / 2 * _ROUND_UP)

    @property
    def attack_words(self) -> str:
        """Best attack, as part of a sentence."""
        accuracy = round_up(100 * self.attack_accuracy, 3)
        return f"an attacker who knows all other records may guess correctly in up to {accuracy:g} % of cases"


def composed_delta(first: Fraction, second: Fraction) -> Fraction:
    """Compute 1 - (1 - first)(1 - second), rounded up to a multiple of 2^-256 if its denominator is longer."""
    return _short(first + second - first * second)


def _short(exact: Fraction) -> Fraction:
    """Round a fraction up to a multiple of 2^-256 so that sums over thousands of fractions stay short."""
    return exact if exact.denominator <= _STEPS else Fraction(math.ceil(exact * _STEPS), _STEPS)


def weak_parameters(
    *, noise: float, epsilon: float, delta: float, attack: str, people: float | None = None, who: str = "people"
) -> list[str]:
    """Describe unreasonable losses and guarantees, or return an empty list.

    Args:
      noise: the standard deviation of a unit count that spends the whole loss.
      epsilon: the total loss at this delta.
      delta: the delta for epsilon, or 0 if the loss is pure.
      attack: `Loss.attack_words`.
      people: approximate or noisy people count. `None` reports problems for every number from 1,000 to a million.
      who: name for the people.

    >>> weak_parameters(noise=2.2, epsilon=2.2, delta=1e-6, attack="", people=10_000)
    []
    >>> weak_parameters(noise=0.35, epsilon=20, delta=1e-6, attack="an attacker may win")
    ['epsilon = 20 at delta = 1e-06 gives little protection: an attacker may win. Use 10 or less, preferably 1 to 3']
    """
    few, many = (_FEW, _MANY) if people is None else (max(people, 1.0),) * 2
    known = f" for {few:,.0f} {who} or more" if people is None else f", about {1 / few:.2g}"
    found = []
    if epsilon > _LARGE_EPSILON:
        said = f"epsilon = {round_up(epsilon, 4):g} at delta = {delta:g}"
        found.append(f"{said} gives little protection: {attack}. Use 10 or less, preferably 1 to 3")
    if delta * few > 1:
        found.append(
            f"delta = {delta:g} exceeds 1 / (number of {who}){known}. Use a much smaller delta, such as "
            f"{_smaller(few):g}"
        )
    if noise > _NOISY_SHARE * many:
        found.append(
            f"epsilon = {epsilon:.4g} at delta = {delta:g} is too small for useful answers: in a count of {who}, the "
            f"noise has a standard deviation of about {noise:,.0f}. Use a larger epsilon or rho"
        )
    return found


def _smaller(people: float) -> float:
    """Compute a round delta that is at most 1/10 divided by the number of people."""
    return min(1e-6, 10.0 ** (math.floor(-math.log10(people)) - 1))


def left_of_delta(delta: Fraction | float, lost: Fraction) -> float:
    """Compute (delta - lost) / (1 - lost), rounded down, for the conversion, or raise unless delta exceeds lost.

    >>> left_of_delta(1e-6, Fraction(1, 2_000_000))
    5.00000250000125e-07
    """
    exact = delta if isinstance(delta, Fraction) else Fraction(repr(float(delta)))
    if exact <= lost:
        raise ArgumentError(
            "delta",
            f"must be above {float(lost):g}, the delta that $KeySelection or $Thresholding spends, got "
            f"{float(delta):g}. The remaining delta determines epsilon",
            "E111",
        )
    left = (exact - lost) / (1 - lost)
    nearest = float(left)
    return nearest if Fraction(nearest) <= left else math.nextafter(nearest, 0.0)


def event_of(loss: Loss, *, ignore_delta: bool) -> Any:
    """Convert a loss to an event: a `GaussianDpEvent`, or a `ZCDpEvent` if not all noise is Gaussian.

    Args:
      loss: privacy loss. Its pure epsilons are represented by their rho, because dp-accounting has no event for them.
      ignore_delta: whether to omit a delta, for which dp-accounting has no event. By default a loss with delta is
        refused.
    """
    if loss.delta and not ignore_delta:
        raise ArgumentError(
            "ignore_delta",
            "must be True if keys or items are selected from the data, because dp_accounting has no event for their "
            "delta. Add statement.delta to the delta from the accountant",
            "E720",
        )
    name, fields = event_fields(loss)
    return getattr(_package(), name)(**fields)


def non_private_event() -> Any:
    """Create the event of a release that protects nobody."""
    return _package().NonPrivateDpEvent()


def event_fields(loss: Loss) -> tuple[str, dict[str, float]]:
    """Name the event of a loss, without its delta, and list its fields."""
    rho = float_above(loss.rho)
    if loss.pure or not rho:
        return "ZCDpEvent", {"rho": rho}
    return "GaussianDpEvent", {"noise_multiplier": (1 - 2.0**-50) / math.sqrt(2 * rho)}


def composed_event_of(losses: Iterable[Loss], *, ignore_delta: bool) -> Any:
    """Combine several losses into a single event."""
    events = [event_of(each, ignore_delta=ignore_delta) for each in losses]
    return _package().ComposedDpEvent(events)


def _package() -> Any:
    try:
        import dp_accounting
    except ImportError as error:
        raise ImportError("to_dp_event() requires the package dp-accounting: pip install dp-accounting") from error
    return dp_accounting
