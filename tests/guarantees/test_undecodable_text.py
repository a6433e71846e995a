"""Text that is not UTF-8 is nothing at every door: its records are dropped like nulls, and no error shows it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from beam_dpsketch import CountSketch, ListedItems, NormBound, PrivacyId, PrivacySpec, read_releases
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.columns import plain_column
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from beam_dpsketch.transforms import PrivateFrequencies
from beam_dpsketch.transforms.steps.bounding_over_windows import _ById
from tests.cli.consoles import run
from tests.helpers import frame_cases
from tests.helpers.frame_cases import SETTINGS, TABLE
from tests.helpers.pipelines import SPEC

SECRET = b"secret\xff\xfe"
NAMES = ["city", "country", "person"]
PIPELINES = ["norm", "records, chosen keys", "groups, records, listed keys"]


def undecodable(table: pa.Table) -> pa.Table:
    """The same table with text that is not UTF-8 in place of nulls."""
    for place, name in enumerate(table.column_names):
        if name in NAMES:
            data = pc.fill_null(table[name].combine_chunks().cast(pa.binary()), SECRET)
            table = table.set_column(place, name, data.view(pa.string()))
    return table


BAD = undecodable(TABLE)


def test_the_table_holds_such_text() -> None:
    assert TABLE["city"].null_count > 0 == BAD["city"].null_count
    with pytest.raises(pa.ArrowInvalid):
        BAD.validate(full=True)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_frame_counts_it_as_nulls(name: str) -> None:
    assert frame_cases.counters_of_frame(name, BAD) == frame_cases.counters_of_frame(name, TABLE)


@pytest.mark.one_fast_case
@pytest.mark.pipeline
@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_counts_it_as_nulls(name: str) -> None:
    _, found = frame_cases.of_pipeline([name], [BAD.slice(0, 700), BAD.slice(700)], [])
    assert found == {name: frame_cases.bytes_of_frame(name, TABLE)}


def test_the_command_releases_it_and_prints_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(BAD, "x.parquet")
    options = "--kind frequencies --item city --key country --privacy-id person --select-keys 1e-3 --max-norm 2 "
    options += "--max-keys 2 --epsilon 2 --delta 1e-2 --output x.dpsketch"
    code, printed = run("run", "x.parquet", *options.split())
    assert (code, "bytes that are not UTF-8" in printed, "secret" in printed) == (2, True, False), printed
    code, printed = run("run", "x.parquet", *options.split(), "--unreadable", "drop")
    assert (code, "secret" in printed) == (0, False), printed
    assert {key for key, _ in read_releases("x.dpsketch", ReleasedSketch, keyed=True)} <= {"NO", "IT", "CH", "unlisted"}


def test_sketches_by_hand_refuse_it_or_leave_it_out_and_do_not_show_it() -> None:
    column = pa.array([b"Oslo", SECRET]).view(pa.string())
    for sketch in (CountSketch(SPEC), ListedHistogram(ListedItems(["Oslo"]))):
        with pytest.raises(
            TypeError, match=r"^items must not contain nulls or text that is not UTF-8. Drop them first"
        ):
            sketch.accumulate(column)


def test_a_check_says_that_it_is_nothing() -> None:
    privacy_unit = PrivacyId("person", NormBound(1))
    private = PrivateFrequencies(SPEC, PrivacySpec(rho=1), privacy_unit=privacy_unit, item="city")
    good = pa.table({"person": ["a"], "city": ["Oslo"]})
    private.check([good])
    with pytest.raises(ValueError, match=r"row 1 of .*item='city' is None. Such records are dropped"):
        private.check([pa.table({"person": ["a", "b"], "city": pa.array([b"Oslo", SECRET]).view(pa.string())})])


def test_a_batch_with_views_is_split_by_privacy_id() -> None:
    """Arrow takes no rows of views, so a stream with `max_windows` would stop at them."""
    reader = RecordReader(Selectors(item="city", privacy_id="person"), per_key=False)
    split, views = _ById(reader), BAD.slice(0, 50)
    for place, name in enumerate(views.column_names):
        if name in NAMES:
            views = views.set_column(place, name, views[name].cast(pa.string_view()))
    split.start_bundle()
    for batches in ([views], views.to_batches()):
        pairs = [pair for batch in batches for pair in split._split_batch(batch)]
        people = TABLE.slice(0, 50)["person"].drop_null()
        assert sorted(found for found, _ in pairs) == sorted(
            b"s" + name.encode() for name in people.unique().to_pylist()
        )
        assert sum(len(rows) for _, rows in pairs) == len(people)


def test_what_is_undecodable_is_what_python_cannot_decode() -> None:
    """All sequences of up to two bytes, and longer ones whose bytes lie at the ends of what UTF-8 allows."""
    edges = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF)
    given = [bytes(each) for size in (1, 2) for each in itertools.product(range(256), repeat=size)]
    given += [bytes(each) for size in (3, 4) for each in itertools.product(edges, repeat=size)]
    texts = pa.array(given, pa.large_binary()).view(pa.large_string())
    expected = [_decodes(each) for each in given]
    assert len(given) > 150_000
    assert plain_column(texts).is_valid().to_pylist() == expected
    alone = [plain_column(texts.slice(place, 1)).null_count == 0 for place in range(0, len(given), 97)]
    assert alone == expected[::97]


def _decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
