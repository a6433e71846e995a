"""Elements that are known to be pairs are refused where nothing says what is counted of them."""

from __future__ import annotations

from typing import Any, Optional

import apache_beam as beam
import pytest
from apache_beam.typehints import row_type

from beam_dpsketch import Horizon, IntegerDomain, PrivacySpec, PublicKeys, Record, SketchSpec, TextDomain, TimeRange
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateTopK
from tests.helpers.pipelines import FN_API

PRIVACY, RECORD = PrivacySpec(epsilon=2, delta=1e-6), Record()
DOORS: dict[str, Any] = {
    "frequencies": lambda **given: PrivateFrequencies(SketchSpec(), PRIVACY, unit=RECORD, **given),
    "quantiles": lambda **given: PrivateQuantiles(IntegerDomain(0, 9), PRIVACY, unit=RECORD, **given),
    "top_k": lambda **given: PrivateTopK(TextDomain(4), PRIVACY, k=2, unit=RECORD, **given),
}
PAIR = tuple[str, int]


def build(element_type: Any, transform: beam.PTransform, windows: Any = None) -> None:
    """Build a pipeline over elements of a type; nothing runs."""
    elements = beam.Pipeline(runner=FN_API) | beam.Impulse() | beam.Map(lambda _: _).with_output_types(element_type)
    _ = (elements if windows is None else elements | beam.WindowInto(beam.window.FixedWindows(60))) | transform


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("element_type", [PAIR, tuple[Any, Any]], ids=str)
def test_pairs_without_keys_and_item_are_refused(door: str, element_type: Any) -> None:
    with pytest.raises(ValueError, match=r"keys must be given where .* pairs.* or give item, as in item=lambda pair"):
        build(element_type, DOORS[door]())


@pytest.mark.parametrize("windows", [TimeRange(0, 60), Horizon(0, 60, 4)], ids=["range", "horizon"])
def test_pairs_are_refused_in_declared_windows_too(windows: Any) -> None:
    with pytest.raises(ValueError, match="keys must be given where elements are"):
        build(PAIR, DOORS["frequencies"](windows=windows), windows if isinstance(windows, TimeRange) else None)


@pytest.mark.filterwarnings("ignore::beam_dpsketch.ElementsWarning")
@pytest.mark.parametrize(
    ("element_type", "given"),
    [
        (PAIR, {"keys": PublicKeys(["a"])}),
        (PAIR, {"item": lambda pair: pair}),
        (PAIR, {"item": lambda pair: pair[1]}),
        (tuple[str, int, int], {}),
        (str, {}),
        (Any, {}),
        (tuple, {}),
        (Optional[PAIR], {"item": lambda pair: pair}),  # noqa: UP045
        (row_type.RowTypeConstraint.from_fields([("city", str), ("n", int)]), {"item": "city"}),
    ],
)
def test_what_is_no_pair_or_says_what_is_counted_is_taken(element_type: Any, given: dict[str, Any]) -> None:
    build(element_type, DOORS["frequencies"](**given))
