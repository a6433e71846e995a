"""The kinds of release that are modelled, each with the rows that it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from beam_dpsketch import (
    AssumePublicKeys,
    IntegerDomain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchSpec,
    TreeSpec,
)
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles
from benchmarks.scale.made_rows import Rows

SPEC, SMALL = SketchSpec(depth=5, width=4096), SketchSpec(depth=5, width=64)
DOMAIN = IntegerDomain(0, (1 << 32) - 1)
PRIVACY = PrivacySpec(rho=1.0)
RECORDS, NORM = RecordBounds(5), NormBound(5)
LIMITED = NormBound(5, max_distinct_items=100)


class Kind(NamedTuple):
    """A kind of release.

    Attributes:
      words: what is released.
      transform: makes it, given how many keys there are.
      bounded: whether records are bounded by privacy id.
      keyed: whether each key has a release of its own.
      text: whether ids are text.
      items: below which items are.
    """

    words: str
    transform: Callable[[int], Any]
    bounded: bool = False
    keyed: bool = False
    text: bool = True
    items: int = Rows.items

    def rows(self, people: int, keys: int) -> Rows:
        """Return the rows that it reads."""
        return Rows(people if self.bounded else 0, keys if self.keyed else 0, self.items, self.text)


def _frequencies(privacy_unit: Any) -> Callable[[int], Any]:
    return lambda _: PrivateFrequencies(SPEC, PRIVACY, privacy_unit=privacy_unit, item="item")


def _tree(layout: TreeSpec) -> Callable[[int], Any]:
    return lambda _: PrivateQuantiles(layout, PRIVACY, privacy_unit=Record(), item="item")


def _keyed(keys_of: Callable[[int], Any]) -> Callable[[int], Any]:
    return lambda keys: PrivateFrequencies(SMALL, PRIVACY, privacy_unit=Record(), item="item", keys=keys_of(keys))


KINDS = {
    "frequencies": Kind("frequencies, Record(), 5 x 4,096", _frequencies(Record())),
    "tree": Kind("quantiles of 2^32 values, Record()", _tree(TreeSpec.for_memory(DOMAIN)), items=1 << 32),
    "fewer": Kind("the same, levels of 16 children", _tree(TreeSpec.for_memory(DOMAIN, arity=16)), items=1 << 32),
    "factor": Kind("the same, layout of `for_ranks`", _tree(TreeSpec.for_ranks(DOMAIN)), items=1 << 32),
    "records": Kind("frequencies, RecordBounds(5), text ids", _frequencies(PrivacyId("person", RECORDS)), True),
    "numbers": Kind("the same, ids are numbers", _frequencies(PrivacyId("person", RECORDS)), bounded=True, text=False),
    "norm": Kind("frequencies, NormBound(5), text ids", _frequencies(PrivacyId("person", NORM)), True),
    "limited": Kind("the same, max_distinct_items=100", _frequencies(PrivacyId("person", LIMITED)), True),
    "order_1": Kind("the same, L1 norm", _frequencies(PrivacyId("person", NormBound(5, norm="l1"))), True),
    "keyed": Kind("each key, Record(), 5 x 64", _keyed(lambda _: AssumePublicKeys("key")), keyed=True),
    "listed": Kind("the same, PublicKeys", _keyed(lambda keys: PublicKeys(range(keys), "key")), keyed=True),
}
