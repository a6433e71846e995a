"""What releases lose: their epsilon at a delta, how losses compose, and which are foolish.

The loss of a mechanism is rho, its zero-concentrated differential privacy, and the delta of rare exceptions. Its rho is
that of Gaussian noise, or of pure parts, which have an epsilon. Epsilon follows from the curve of the Gaussian
(`gaussian_curve`), rounded up; of sums with pure parts, `zcdp` has the curve of all mechanisms with this rho.

A mechanism is d-approximate rho-zCDP if, except with probability d on each of the two inputs, it is rho-zCDP (Bun and
Steinke 2016, arXiv:1605.02065, section 8). Let P = (1 - d) P' + d P'' be its output, and the same with Q. Where P' and
Q' are (epsilon, c)-DP, P(S) <= (1 - d)(e^epsilon Q'(S) + c) + d <= e^epsilon Q(S) + (1 - d) c + d. So d is lost of
delta first, and c = (delta - d) / (1 - d) is left for the conversion.

Composition. Guarantee: a mechanism of loss (rho, delta) is delta-approximate rho-zCDP for one unit under one relation.
Of releases with noise of their own, and losses that hold for each:

* `plus`: all of them together lose the sum, where a unit may be in each.
* `larger`: they lose the larger rho and the larger delta, if no unit is in both inputs.
* The releases of one run are one mechanism. Its noise is drawn for the largest change of all its counters together that
  one unit can cause. So all of them, or some, lose what the run loses, once for each draw of the most drawn part.

Proof of the sum. Bun and Steinke 2016 (arXiv:1605.02065), Lemma 7 and section 8: rho adds. Of Gaussian noise, mu =
sqrt(2 rho) composes in the root of squares, so rho adds too, and the sum has the curve of a Gaussian (`mechanism`). Of
delta, 1 - (1 - d)(1 - d') is lost, because each mechanism is independent of the other's exceptions. This holds if a
later release depends on earlier ones.

What must not depend on them is the kind of a release, and how much it spends. That may depend on them too where rho and
delta have fixed caps (Whitehouse et al. 2023, arXiv:2203.05481), or the sum of pure epsilons has one (Rogers et al.
2016, arXiv:1605.08294). One epsilon at one delta caps neither: it trades them. Say that 0.7 of rho at epsilon = 2 and
delta = 1e-6 is spent. An analyst who then takes the rest of rho, or that of delta, by what was seen, can lose 1.98e-6
at epsilon = 2.

Proof of the larger. Added or removed, a unit is in one input, and the output of the other does not change. So is a unit
that is replaced within one input. Its replacement may also enter the other: one input loses a unit, the other gains
one, and both losses add. Each is at most half of what its mechanism loses to a replacement, so the sum is at most the
larger of the two. Why half? Each part of rho has noise for `mechanism.change_factor` times the square of what a unit
adds, which is 2 or more. Where the parts of keys and sketches share one maximum (`selection`), leaving j keys for j
others is one of its cases, and costs a removal twice. If this half holds for two mechanisms, it holds for their sum and
for the larger of both. So three inputs, and combinations of combinations, lose the largest too.

Pure parts. Noise of the discrete Laplace is epsilon-DP without any delta, and epsilon adds up. It is epsilon^2 / 2-zCDP
too (Bun and Steinke 2016, Proposition 1.4), so `rho` covers these parts as well. Of a sum with pure parts the smaller
of two epsilons is shown: that of all rho, and the pure epsilons plus that of the rest at the same delta. Each may
depend on earlier outputs, and on which data. Proof of the second. Let L be the logarithm of the ratio of probabilities
of all outputs, on the two inputs. It is the sum of G, of the rest, and of the pure parts, which is at most E. Then
delta at e + E is the mean of max(0, 1 - exp(e + E - L)), over outputs of the first input, so at most that of max(0, 1 -
exp(e - G)). This is the delta at e of two mechanisms that differ in the rest alone: both make pure parts of the first
input.

The same for delta. Where a unit is added, exceptions are needed on one of the two inputs: that with the unit. So if a
unit leaves one mechanism, and another enters the other, each of the two data sets has the exceptions of one mechanism.

Accuracy of an attacker. Somebody knows both inputs, holds each of them for equally likely, sees all outputs, and says
which input was used. The best guess is right with probability (1 + t) / 2, where t is the total variation distance
between the two laws of the outputs (Neyman and Pearson). These bound t, and `attack_accuracy` uses the smaller of both:

* Of Gaussian noise, t is the delta at epsilon 0. Of a pure epsilon e, t is at most (exp(e) - 1) / (exp(e) + 1), which
  the discrete Laplace attains. Mechanisms with t and t' together have at most 1 - (1 - t)(1 - t'): couple the outputs
  of the first, which are equal with probability 1 - t, and then those of the second.
* rho-zCDP has a Kullback-Leibler divergence of at most rho (its order 1), so t is at most sqrt(rho / 2) by Pinsker's
  inequality, and at most sqrt(1 - exp(-rho)) by that of Bretagnolle and Huber (1979).

With exceptions of probability d, t is at most 1 - (1 - d)(1 - t), as the laws are mixtures with the same weights.

Losses as events of `dp_accounting`, for its accountants.
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
    """What one release, or several together, lose: delta-approximate rho-zCDP.

    The rho of the parts that are not pure is that of Gaussian noise.

    Attributes:
      rho: of all parts, exact.
      delta: of exceptions, exact.
      pure: the sum of the epsilons of parts that need no delta, exact.
      pure_rho: the part of rho that is theirs, the sum of epsilon^2 / 2.

    >>> Loss(Fraction(1, 2)).plus(Loss(Fraction(1, 4))).rho
    Fraction(3, 4)
    """

    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    pure: Fraction = Fraction(0)
    pure_rho: Fraction = Fraction(0)

    @classmethod
    def of_pure(cls, epsilon: Fraction, delta: Fraction = Fraction(0)) -> Loss:
        """Return the loss of noise that is epsilon-DP, and of exceptions."""
        rho = epsilon**2 / 2
        return cls(rho, delta, epsilon, rho)

    def plus(self, other: Loss) -> Loss:
        """Return the loss of both, where a unit may be in both inputs; long fractions are rounded up."""
        rest = _short(self._rest + other._rest)
        pure, pure_rho = _short(self.pure + other.pure), _short(self.pure_rho + other.pure_rho)
        return Loss(rest + pure_rho, composed_delta(self.delta, other.delta), pure, pure_rho)

    def larger(self, other: Loss) -> Loss:
        """Return the loss of both, where no unit is in both inputs; also the least loss that is as large as each."""
        rest = max(self._rest, other._rest)
        pure, pure_rho = max(self.pure, other.pure), max(self.pure_rho, other.pure_rho)
        return Loss(rest + pure_rho, max(self.delta, other.delta), pure, pure_rho)

    @property
    def _rest(self) -> Fraction:
        """The rho of the parts that are not pure."""
        return self.rho - self.pure_rho

    @property
    def is_pure(self) -> bool:
        """Whether all of it is pure, but for exceptions."""
        return self.pure > 0 and not self._rest

    def shown(self, delta: float) -> tuple[float, float]:
        """Return the epsilon that is shown, rounded up, and its delta: a pure loss has one without this delta.

        Epsilon is infinite where exceptions have no less of a delta.
        """
        if self.is_pure:
            return float_above(self.pure), float_above(self.delta)
        return (math.inf if Fraction(repr(delta)) <= self.delta else self.epsilon(delta)), delta

    def least_epsilon(self, delta: float) -> float:
        """Return epsilon at this delta, rounded up; infinite where exceptions have no less of a delta."""
        given = Fraction(repr(float(delta)))
        is_enough = given >= self.delta if self.is_pure else given > self.delta
        return self.epsilon(delta) if is_enough else math.inf

    def epsilon(self, delta: float) -> float:
        """Return epsilon at this delta, rounded up; refuse one that is below that of exceptions.

        A pure loss has an epsilon at that delta itself; others only above it.
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
        """The highest accuracy of a guess which of two neighboring, equally likely inputs was used; rounded up.

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
        """The best attack, as a part of a sentence."""
        accuracy = round_up(100 * self.attack_accuracy, 3)
        return f"an attacker who knows all other records may guess correctly in up to {accuracy:g} % of cases"


def composed_delta(first: Fraction, second: Fraction) -> Fraction:
    """Return 1 - (1 - first)(1 - second), rounded up to a multiple of 2^-256 where its denominator is longer."""
    return _short(first + second - first * second)


def _short(exact: Fraction) -> Fraction:
    """Return a fraction that thousands of sums do not make longer and longer: a multiple of 2^-256, rounded up."""
    return exact if exact.denominator <= _STEPS else Fraction(math.ceil(exact * _STEPS), _STEPS)


def foolish(
    *, noise: float, epsilon: float, delta: float, attack: str, people: float | None = None, who: str = "people"
) -> list[str]:
    """Return what no release should lose or promise, in words; an empty list if the loss suits.

    Args:
      noise: the standard deviation of a count of units that all of the loss pays for.
      epsilon: the loss of all that is released together, at this delta.
      delta: at which epsilon is shown; 0 where it is pure.
      attack: `Loss.attack_words`.
      people: about how many there are, or a noisy count of them. `None` finds what suits none of 1,000 to a million.
      who: what they are called.

    >>> foolish(noise=2.2, epsilon=2.2, delta=1e-6, attack="", people=10_000)
    []
    >>> foolish(noise=0.35, epsilon=20, delta=1e-6, attack="an attacker may know all")
    ['epsilon = 20 at delta = 1e-06 gives little protection: an attacker may know all; use 10 or less, better 1 to 3']
    """
    few, many = (_FEW, _MANY) if people is None else (max(people, 1.0),) * 2
    known = "" if people is None else f", which is about {1 / few:.2g}"
    found = []
    if epsilon > _LARGE_EPSILON:
        said = f"epsilon = {round_up(epsilon, 4):g} at delta = {delta:g}"
        found.append(f"{said} gives little protection: {attack}; use 10 or less, better 1 to 3")
    if delta * few > 1:
        found.append(
            f"delta = {delta:g} is more than 1 over the number of {who}{known}, so its epsilon may fail for some "
            f"of them; take much less, as {_smaller(few):g}"
        )
    if noise > _NOISY_SHARE * many:
        found.append(
            f"epsilon = {epsilon:.4g} at delta = {delta:g} is so small that answers are mostly noise: as much as what "
            f"about {noise:,.0f} {who} add; raise epsilon, or rho"
        )
    return found


def _smaller(people: float) -> float:
    """Return a round delta that is at most a tenth of 1 over the number of people."""
    return min(1e-6, 10.0 ** (math.floor(-math.log10(people)) - 1))


def left_of_delta(delta: Fraction | float, lost: Fraction) -> float:
    """Return (delta - lost) / (1 - lost), rounded down: what is left for the conversion; refuse a delta not above lost.

    >>> left_of_delta(1e-6, Fraction(1, 2_000_000))
    5.00000250000125e-07
    """
    exact = delta if isinstance(delta, Fraction) else Fraction(repr(float(delta)))
    if exact <= lost:
        raise ArgumentError(
            "delta",
            f"must be above {float(lost):g}, the delta of $KeySelection or $Groups, because what is left "
            f"makes the epsilon; got {float(delta):g}",
            "E111",
        )
    left = (exact - lost) / (1 - lost)
    nearest = float(left)
    return nearest if Fraction(nearest) <= left else math.nextafter(nearest, 0.0)


def event_of(loss: Loss, *, ignore_delta: bool) -> Any:
    """Return a loss as an event: a `GaussianDpEvent`, or a `ZCDpEvent` where not all noise is Gaussian.

    Args:
      loss: what is lost; its pure epsilons are told by their rho, because that package has no event for them.
      ignore_delta: whether to leave out a delta, which that package has no event for; else a loss with one is refused.
    """
    if loss.delta and not ignore_delta:
        raise ArgumentError(
            "ignore_delta",
            "must be True for a release whose keys were chosen: dp_accounting has no event for its delta, so "
            "add statement.delta to the delta that the accountant gives",
            "E720",
        )
    name, fields = event_fields(loss)
    return getattr(_package(), name)(**fields)


def event_fields(loss: Loss) -> tuple[str, dict[str, float]]:
    """Return the name of the event of a loss, without its delta, and its fields."""
    rho = float_above(loss.rho)
    if loss.pure or not rho:
        return "ZCDpEvent", {"rho": rho}
    return "GaussianDpEvent", {"noise_multiplier": (1 - 2.0**-50) / math.sqrt(2 * rho)}


def composed_event_of(losses: Iterable[Loss], *, ignore_delta: bool) -> Any:
    """Return several losses as one event."""
    events = [event_of(each, ignore_delta=ignore_delta) for each in losses]
    return _package().ComposedDpEvent(events)


def _package() -> Any:
    try:
        import dp_accounting
    except ImportError as error:
        raise ImportError("to_dp_event() needs the package dp-accounting: pip install dp-accounting") from error
    return dp_accounting
