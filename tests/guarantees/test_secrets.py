"""Values of the data are in no log, message or display: only types, settings and noise get out."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.display import DisplayData

from beam_dpsketch import (
    AssumePublicKeys,
    CountSketch,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchSpec,
)
from beam_dpsketch.transforms import BoundContributions, PrivateFrequencies, PrivateSketchFn
from tests.helpers.keyed_units import in_keys
from tests.helpers.pipelines import SPEC, run

SECRET = "planted-secret-4711"
PRIVACY = PrivacySpec(rho=0.1)
ONE = RecordBounds(1, max_weight=1)
NORM = NormBound(3, max_weight=3, signed=True)
WIDE = RecordBounds(max_records=3, max_weight=3, signed=True)


def fails(element: Any) -> Any:
    raise ValueError(f"no such thing: {element}")


def failing_selectors() -> Iterator[tuple[str, beam.PTransform, list[Any]]]:
    """Pipelines that go through with records that hold the secret in every place and type."""
    rows = [{"user": SECRET, "item": SECRET, "n": SECRET}, {"user": [SECRET], "item": {SECRET}, "n": 1.5}]
    names = {"item": "item", "weight": "n"}
    yield ("record", PrivateFrequencies(SPEC, PRIVACY, **names, privacy_unit=Record(max_weight=1)), rows)
    yield "id", PrivateFrequencies(SPEC, PRIVACY, **names, privacy_unit=PrivacyId("user", WIDE)), rows
    yield "callable", PrivateFrequencies(SPEC, PRIVACY, item=fails, privacy_unit=PrivacyId(fails, ONE)), rows
    yield "norm", PrivateFrequencies(SPEC, PRIVACY, **names, privacy_unit=PrivacyId("user", NORM)), rows
    keyed = {"privacy_unit": Record(max_weight=1), "keys": AssumePublicKeys("user"), **names}
    yield "key", PrivateFrequencies(SPEC, PRIVACY, **keyed), rows
    yield "bounding", BoundContributions(PrivacyId("user", WIDE), item="item"), [rows[1]]


def test_records_that_cannot_be_counted_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="beam_dpsketch"):
        for _, transform, rows in failing_selectors():
            run(rows, transform)
    assert not [record for record in caplog.records if record.name.startswith("beam_dpsketch")]
    assert SECRET not in caplog.text


class Fails(beam.DoFn):
    def process(self, element: Any) -> None:
        raise RuntimeError(SECRET)


def test_the_test_of_logs_would_find_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("beam_dpsketch.transforms").warning("dropped %s", SECRET)
    assert SECRET in caplog.text
    with pytest.raises(RuntimeError, match=SECRET):
        run([1], beam.ParDo(Fails()))


UNUSABLE = {
    "float item": (pa.table({"item": [1.5], "user": [SECRET]}), "item", "user"),
    "missing item": (pa.table({"user": [SECRET]}), "item", "user"),
    "nested id": (pa.table({"item": [SECRET], "user": [[SECRET]]}), "item", "user"),
}


@pytest.mark.parametrize("bounds", [ONE, pytest.param(NORM, marks=pytest.mark.slow)], ids=["records", "norm"])
@pytest.mark.parametrize("name", UNUSABLE)
def test_errors_about_columns_show_no_value(name: str, bounds: Any) -> None:
    batch, item, user = UNUSABLE[name]
    with pytest.raises(Exception, match=r"column|must hold") as caught:
        run([batch], PrivateFrequencies(SPEC, PRIVACY, item=item, privacy_unit=PrivacyId(user, bounds)))
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown


def test_records_that_a_norm_scales_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Of one heavy person, and of one whose deletes leave nothing."""
    rows = [{"user": SECRET, "item": f"{SECRET} {number % 9}", "n": 3 - number % 2} for number in range(99)]
    rows += [{"user": f"{SECRET} too", "item": SECRET, "n": weight} for weight in (3, -3)]
    with caplog.at_level(logging.DEBUG, logger="beam_dpsketch"):
        (released,) = run(
            rows, PrivateFrequencies(SPEC, PRIVACY, item="item", weight="n", privacy_unit=PrivacyId("user", NORM))
        )
    assert not [record for record in caplog.records if record.name.startswith("beam_dpsketch")]
    shown = repr(released) + str(released.privacy) + str(released.privacy.as_dict())
    assert "planted" not in caplog.text + shown


def test_raw_sketches_refuse_bad_items_without_showing_them() -> None:
    for items in ([SECRET, {SECRET}], [[SECRET]], pa.array([[SECRET]])):
        with pytest.raises((TypeError, ValueError)) as caught:
            CountSketch(SPEC).accumulate(items)
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_display_data_of_the_whole_graph_show_no_secret() -> None:
    spec = SketchSpec(depth=3, width=16, seed=471_108_150, item_hash="blake2b", item_key=SECRET[:16].encode())
    pipeline = beam.Pipeline(runner="FnApiRunner")
    source = pipeline | beam.Create([("key", "x")])
    source | PrivateFrequencies(
        spec,
        PRIVACY,
        privacy_unit=in_keys(PrivacyId(lambda value: SECRET, WIDE), "key"),
        keys=PublicKeys(["planted-public"]),
    )
    of_all = PrivateFrequencies(
        spec, PRIVACY, privacy_unit=PrivacyId(lambda value: SECRET, NORM), item=lambda pair: pair
    )
    source | "OfAll" >> of_all
    source | beam.CombineGlobally(PrivateSketchFn(spec, PRIVACY))
    shown: list[str] = []

    class Visitor(beam.pipeline.PipelineVisitor):
        def enter_composite_transform(self, node: Any) -> None:
            self.visit_transform(node)

        def visit_transform(self, node: Any) -> None:
            shown.append(node.full_label)
            if node.transform is not None:
                shown.extend(str(item.get_dict()) for item in DisplayData.create_from(node.transform).items)

    pipeline.visit(Visitor())
    text = "\n".join(shown)
    assert "count_sketch" in text
    for secret in (SECRET, SECRET[:16], "planted", "471108150"):
        assert secret not in text
