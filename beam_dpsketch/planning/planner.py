"""The planner: what a release will cost and how good it will be, before any data is read."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

from beam_dpsketch import _validate
from beam_dpsketch.domains import BytesDomain, Domain
from beam_dpsketch.engine.noising import calibrate
from beam_dpsketch.planning import expected_answers, plan_text
from beam_dpsketch.planning.advice import USUAL_WANTED_ERROR, Advice, advise
from beam_dpsketch.planning.expected_error import REFERENCES, exact_tree_deviation, simulated_deviation
from beam_dpsketch.privacy.auto_norm import AutoNorm
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.sketches import raw_type
from beam_dpsketch.sketches.listed_items import ListedItems
from beam_dpsketch.sketches.prefix import PrefixSpec
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import BYTES_PER_COUNTER, TreeSpec
from beam_dpsketch.statement.showing import html_table

USELESS_SHARE = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A release before it is made, with what to expect of it; `print` it.

    Attributes:
      spec: the sketch.
      terms: what the release spends, whom it protects, how much of each may count, and in how many windows.
      n: the expected weight of one release; `None` if it is not known.
      keys: how many output keys there are; `None` without, or where they are not known.
      sigma_squared: the noise parameter of each table of counters; under an `AutoNorm`, that of a norm of 1.
      rank_deviation: of quantiles, the expected root mean square rank error, by data: "any" for trees of exact levels,
        otherwise by reference distribution.
      rank_deviation_known_total: the same where the total weight is public; of trees of exact levels only.
      detection: of searches, from which weight on the noise alone lets values be found.
      detection_on_data: the same with collisions, on made-up data.
      half_width: of frequencies, half the width of a 95 % interval from the noise alone.
      errors: the errors of frequencies with collisions, on made-up data; `None` for listed items, which have none.
      advice: what another bound or epsilon would give, and how many people a wanted error needs, from the noise alone;
        `None` for continual release.
    """

    spec: SketchSpec | ListedItems | TreeSpec | PrefixSpec
    terms: ReleaseTerms
    n: int | None
    keys: int | None
    sigma_squared: tuple[Fraction, ...]
    rank_deviation: dict[str, float] | None = None
    rank_deviation_known_total: float | None = None
    detection: expected_answers.Detection | None = None
    detection_on_data: expected_answers.Detection | None = None
    half_width: float | None = None
    errors: expected_answers.Errors | None = None
    advice: Advice | None = None

    @property
    def memory(self) -> int:
        """Bytes of the counters of all keys, at 4 a counter."""
        return self.spec.cells * BYTES_PER_COUNTER * (self.keys or 1)

    @property
    def is_mostly_noise(self) -> bool:
        """Whether answers would be wrong by a tenth of the weight on any data, or a search would find nothing."""
        if self.n is None:
            return False
        if self.detection_on_data is not None:
            return not self.detection_on_data.reaching
        if self.rank_deviation:
            error: float | None = min(self.rank_deviation.values())
        else:
            error = self.errors.half_width if self.errors else self.half_width
        return bool(error and error > USELESS_SHARE * self.n)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain Python values, with `None` for what is not known."""
        return {
            "kind": raw_type(self.spec).name,
            "counters": self.spec.cells,
            "keys": self.keys,
            "bytes": self.memory,
            "sigma": [math.sqrt(each) for each in self.sigma_squared],
            **plan_text.terms_fields(self.terms),
            "n": self.n,
            "rank_deviation": self.rank_deviation,
            "rank_deviation_known_total": self.rank_deviation_known_total,
            "detection": None if self.detection is None else self.detection._asdict(),
            "detection_on_data": None if self.detection_on_data is None else self.detection_on_data._asdict(),
            "half_width": self.half_width,
            "errors": None if self.errors is None else self.errors._asdict(),
            "is_mostly_noise": self.is_mostly_noise,
            "advice": None if self.advice is None else self.advice.as_dict(),
        }

    def __str__(self) -> str:
        return "\n".join(plan_text.lines(self))

    def _repr_html_(self) -> str:
        return html_table(([line] for line in plan_text.lines(self)), caption="Plan")


def plan(
    spec: SketchSpec | ListedItems | TreeSpec | PrefixSpec | Domain | BytesDomain,
    terms: ReleaseTerms,
    n: int | None = None,
    *,
    keys: int | None = None,
    search: bool = False,
    wanted_error: Fraction | float = USUAL_WANTED_ERROR,
) -> Plan:
    """Return layout, bytes, noise and expected errors of a release, before any data is read.

    Args:
      spec: the sketch, or the domain of a tree of the usual layout.
      terms: what the release spends, whom it protects, how much of each may count, and in how many windows.
      n: about how many records (or what weight) count in one release; `None` leaves out what depends on it.
      keys: how many output keys there are.
      search: whether the release serves a list of the most frequent values.
      wanted_error: an error as a share of the weight that counts in one release, between 0 and 1: the plan says how
        many people it needs. For an item that holds a tenth of the weight, 0.005 is 5 % of the item.

    >>> from beam_dpsketch import IntegerDomain, PrivacySpec, REPLACE_ONE
    >>> terms = ReleaseTerms(PrivacySpec(rho=1.0, relation=REPLACE_ONE, side_counters=None))
    >>> round(plan(IntegerDomain(0, 65_535), terms, n=100_000).rank_deviation["any"], 2)
    5.86
    """
    if isinstance(spec, (Domain, BytesDomain)):
        spec = PrefixSpec.for_memory(spec) if isinstance(spec, BytesDomain) else TreeSpec.for_memory(spec)
    if n is not None:
        _validate.whole(low=1, high=1 << min(50, 62 - terms.scale_bits), n=n)  # scaled counters wrap around earlier
    sigma_squared = calibrate(spec, terms)
    expected: dict[str, Any] = {}
    if not terms.unit.over_horizon:
        expected["advice"] = advise(spec, terms, search=search, wanted_error=wanted_error)
        if not isinstance(terms.bounds, AutoNorm):  # its noise is not known yet
            expected |= _expected_answers(spec, terms, n, sigma_squared, search)
    return Plan(spec=spec, terms=terms, n=n, keys=keys, sigma_squared=sigma_squared, **expected)


def _expected_answers(
    spec: Any, terms: ReleaseTerms, n: int | None, sigma_squared: tuple[Fraction, ...], search: bool
) -> dict[str, Any]:
    if isinstance(spec, (SketchSpec, ListedItems)):
        half_width = expected_answers.noise_half_width(spec, sigma_squared[0])
        if n is None or isinstance(spec, ListedItems):
            return {"half_width": half_width}
        return {"half_width": half_width, "errors": expected_answers.simulated_errors(spec, terms, n)}
    if search or isinstance(spec, PrefixSpec):
        on_data = None if n is None else expected_answers.simulated_detection(spec, terms, n)
        return {"detection": expected_answers.noise_detection(spec, sigma_squared), "detection_on_data": on_data}
    return {} if n is None else _expected_ranks(spec, terms, n, sigma_squared)


def _expected_ranks(spec: TreeSpec, terms: ReleaseTerms, n: int, sigma_squared: tuple[Fraction, ...]) -> dict[str, Any]:
    if any(level.sketch != "exact" for level in spec.levels):
        return {"rank_deviation": {name: simulated_deviation(spec, terms, n, reference=name) for name in REFERENCES}}
    return {
        "rank_deviation": {"any": exact_tree_deviation(spec, sigma_squared, known_total=False)},
        "rank_deviation_known_total": exact_tree_deviation(spec, sigma_squared, known_total=True),
    }
