"""Mistakes that are public, by types and settings or to who holds the data, are not silent.

A row is a name, what a user does, and what happens: the exception, the warning or the exit code, and words of it.
"""

from __future__ import annotations

import datetime
import decimal
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from apache_beam.io.parquetio import ReadFromParquet, ReadFromParquetBatched
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import (
    AutoNorm,
    ConfigError,
    CountSketch,
    FloatDomain,
    InputWarning,
    IntegerDomain,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TimeRange,
    TreeSpec,
    release,
    release_frame,
)
from beam_dpsketch.config import read_ask, read_release
from beam_dpsketch.errors import IncompatibleSketchError
from beam_dpsketch.exact.domains import TimestampDomain
from beam_dpsketch.exact.sketches import DyadicCountSketch, ListedHistogram
from beam_dpsketch.rows import ReadParquetBatches
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles
from tests.cli.consoles import run, write
from tests.helpers.keyed_units import in_keys
from tests.helpers.pipelines import FN_API

PRIVACY, TERMS = PrivacySpec(rho=1), ReleaseTerms(PrivacySpec(rho=1))
BY_PERSON = PrivacyId("person", RecordBounds(9, max_weight=99))
WHOLE = IntegerDomain(0, 1000)
DAY = datetime.datetime(2024, 1, 1)
PLANTED = 0.471147114711
TABLE = pa.table(
    {
        "person": [*range(200)],
        "city": ["Oslo"] * 200,
        "ms": [PLANTED + number for number in range(200)],
        "price": pa.array([PLANTED + number for number in range(200)], pa.float32()),
        "paid": pa.array([decimal.Decimal(1)] * 200, pa.decimal128(14, 2)),
        "n": [-1, *range(199)],
        "seen": [True] * 200,
    }
)
PANDAS = TABLE.to_pandas()


class Visit(NamedTuple):
    person: int
    city: str
    ms: float


def quantiles(domain: Any = WHOLE, item: str = "ms", **arguments: Any) -> PrivateQuantiles:
    return PrivateQuantiles(domain, PRIVACY, privacy_unit=BY_PERSON, item=item, **arguments)


def frequencies(privacy_unit: Any = BY_PERSON, **arguments: Any) -> PrivateFrequencies:
    return PrivateFrequencies(
        SketchSpec(),
        PRIVACY,
        privacy_unit=in_keys(privacy_unit, arguments.get("keys")),
        **{"item": "city", **arguments},
    )


def of_frame(table: Any, made: Any) -> Any:
    return release_frame(table, made._declared)


def built(elements: Any, made: Any) -> Any:
    """A pipeline that is built and not run."""
    return beam.Pipeline(runner=FN_API) | elements | made


def created(*elements: Any, kind: Any = None) -> Any:
    made = beam.Create(elements)
    return made if kind is None else made.with_output_types(kind)


def settings(**changes: Any) -> dict[str, Any]:
    privacy_unit = {"privacy_id": "person", "norm": {"max_norm": 20, "max_weight": 1000}}
    return {"kind": "frequencies", "item": "city", "privacy": {"rho": 1}, "privacy_unit": privacy_unit, **changes}


def command(line: str) -> tuple[int, str]:
    return run(*shlex.split(line))


RUN = "--rho 1 --privacy-id person --max-records 2 --output x.dpsketch"
OF_MS = f"--kind quantiles --item ms --domain '{{type: integer, low: 0, high: 1000}}' {RUN}"
OF_N = f"--kind frequencies --item city --weight n --max-weight 9 {RUN}"
TREE = release(DyadicCountSketch(TreeSpec.for_memory(WHOLE, 100_000)).accumulate([1, 2, 3]), TERMS)
WORDS = release_frame(
    pa.table({"word": ["a"]}),
    {"kind": "top_k", "k": 2, "item": "word", "domain": {"type": "text", "max_bytes": 4}, "privacy_unit": "record"}
    | {"privacy": {"epsilon": 1, "delta": 1e-6}},
)
LISTED = release(ListedHistogram(ListedItems(["Oslo", "Rome"])).accumulate(["Oslo"]), TERMS)
FLAT = release(CountSketch(SketchSpec(width=16)).accumulate(["a"]), TERMS)
DATA = "data.parquet"
COLUMNS = ["person", "town"]
YEAR = TimeRange(DAY, datetime.datetime(2025, 1, 1))

Expected = type[BaseException] | int
MISTAKES: list[tuple[str, Callable[[], Any], Expected, str]] = [
    # A norm below the largest weight.
    (
        "norm below the largest weight",
        lambda: frequencies(PrivacyId("person", NormBound(20, max_weight=1000)), weight="n"),
        ValueError,
        "max_norm must be at least max_weight (1000), got 20",
    ),
    (
        "the same in settings",
        lambda: read_release(settings(weight="ms")),
        ConfigError,
        "privacy_unit.norm.max_norm: must be at least max_weight (1000), got 20",
    ),
    (
        "the same in the command",
        lambda: command(
            f"run {DATA} --kind frequencies --item city --weight n --max-weight 1000 --max-norm 20 --rho 1 "
            "--privacy-id person --output x.dpsketch"
        ),
        2,
        "--max-norm: must be at least max_weight (1000), got 20",
    ),
    # Fractions where whole numbers are read.
    (
        "a float item of a table",
        lambda: of_frame(TABLE, quantiles()),
        TypeError,
        "item='ms' must contain whole numbers",
    ),
    (
        "a float weight of a table",
        lambda: of_frame(TABLE, frequencies(weight="ms")),
        TypeError,
        "Round the column, for example with",
    ),
    ("decimals with cents", lambda: of_frame(TABLE, frequencies(weight="paid")), TypeError, "got decimal128(14, 2)"),
    (
        "a float id of a table",
        lambda: of_frame(TABLE, frequencies(PrivacyId("ms", RecordBounds(1)))),
        TypeError,
        "privacy_id='ms' must contain text, bytes or integers, got double",
    ),
    (
        "pandas, mostly fractions",
        lambda: of_frame(PANDAS, quantiles()),
        ValueError,
        "item='ms': all of the values cannot be read as whole numbers (IntegerDomain)",
    ),
    (
        "pandas, some fractions",
        lambda: of_frame(PANDAS.assign(ms=[0.5] + [1.0] * 199), quantiles()),
        InputWarning,
        "item='ms': under 1 % of the values cannot be read as whole numbers (IntegerDomain). "
        "They look like 9.9. Round the column",
    ),
    ("floats of 32 bits", lambda: of_frame(PANDAS, frequencies(weight="price")), TypeError, "got float"),
    (
        "typed rows",
        lambda: built(created(Visit(1, "Oslo", 0.5), kind=Visit), frequencies(weight="ms")),
        TypeError,
        "weight='ms' has type float, but a weight must be a whole number. Round it to an int. If missing values turned "
        "integers into floats, read it with dtype: {ms: Int64}",
    ),
    ("Parquet in the command", lambda: command(f"run {DATA} {OF_MS}"), 2, "item='ms' must contain whole numbers"),
    (
        "CSV in the command",
        lambda: command(f"run data.csv {OF_MS}"),
        2,
        "all of the values cannot be read as whole numbers",
    ),
    ("check against Parquet", lambda: command(f"check ms.yaml --against {DATA}"), 2, "item='ms' must contain whole"),
    (
        "check against CSV",
        lambda: command("check ms.yaml --against data.csv"),
        2,
        "all of the values cannot be read as whole",
    ),
    (
        "decimals as ids in CSV",
        lambda: command(f"run data.csv {OF_N.replace('person', 'price')}"),
        2,
        "of the values cannot be read as text, bytes or integers. They look like 9",
    ),
    # Negative weights without `signed`.
    (
        "negative weights of a table",
        lambda: of_frame(TABLE, frequencies(weight="n")),
        InputWarning,
        "weight='n' has negative values, which count as 0. For deletions, set signed in the bounds.",
    ),
    ("the same in a sample", lambda: frequencies(weight="n").check(TABLE), InputWarning, "(weights are not signed)"),
    ("negative weights of Parquet", lambda: command(f"run {DATA} {OF_N}"), 0, "weight='n' has negative values"),
    ("negative weights of CSV", lambda: command(f"run data.csv {OF_N}"), 0, "weight='n' has negative values"),
    ("check against them", lambda: command(f"check n.yaml --against {DATA}"), 0, "weight='n' has negative values"),
    # Items of another type than those of the release.
    ("numbers asked of text", lambda: WORDS.top_k(2, [1, 2]), TypeError, "items must be text (TextDomain)"),
    ("text asked of numbers", lambda: TREE.top_k(2, ["a"]), TypeError, "items must be in the domain of the release"),
    ("numbers asked of a list", lambda: LISTED.top_k(2, [1, 2]), ValueError, "items must be"),
    ("candidates of two types", lambda: FLAT.top_k(2, [1, "1"]), InputWarning, "Items have several types: int, str"),
    ("a dictionary of two types", lambda: FLAT.decode([1, "1"]), InputWarning, "Items have several types"),
    ("numbers minus text", lambda: TREE.minus(WORDS), IncompatibleSketchError, "These differ in kind"),
    # Swapped ranges.
    ("a swapped range", lambda: TREE.range_count(100, 50), ValueError, "high must be at least low, got 100 and 50"),
    ("one of many", lambda: TREE.range_interval([1, 9], [5, 2]), ValueError, "got 9 and 2. Swap them"),
    ("in the command", lambda: command("query tree.dpsketch --range 100 50"), 1, "got 100 and 50. Swap them"),
    (
        "in settings",
        lambda: read_ask({"ranges": [[100, 50]]}, domain=WHOLE),
        ConfigError,
        "ask.ranges[0]: must begin with the low end, got 100 and 50",
    ),
    # Columns of Parquet in pipelines.
    (
        "a column that a batch will not have",
        lambda: built(ReadFromParquetBatched(DATA, validate=False, columns=COLUMNS), frequencies()),
        ValueError,
        "item='city' is not a column that the source reads. Columns: person, town",
    ),
    (
        "a column that a dict will not have",
        lambda: built(ReadFromParquet(DATA, validate=False, columns=COLUMNS), frequencies()),
        ValueError,
        "item='city' is not a column that the source reads. Columns: person, town",
    ),
    (
        "a column that a table will not have",
        lambda: built(ReadParquetBatches(path=DATA, columns=COLUMNS), frequencies()),
        ValueError,
        "item='city' is not a column that the source reads. Columns: person, town",
    ),
    # What is dropped as a whole.
    (
        "listed keys of another type",
        lambda: of_frame(TABLE, frequencies(keys=PublicKeys([1, 2], "city"))),
        ValueError,
        "key='city' contains text, but the list contains whole numbers, so no row would count. "
        "List text. Nothing was spent.",
    ),
    (
        "booleans",
        lambda: of_frame(TABLE, frequencies(item="seen")),
        TypeError,
        "got bool. Convert the column to text, for example with pc.",
    ),
    (
        "times in milliseconds",
        lambda: frequencies(Record(), windows=YEAR).check([TimestampedValue({"city": "Oslo"}, 1.7e12)]),
        ValueError,
        "Beam counts times in seconds: divide milliseconds by 1000",
    ),
    (
        "milliseconds as times",
        lambda: of_frame(TABLE, quantiles(TimestampDomain(DAY, YEAR.end), item="n")),
        TypeError,
        "got int64. Convert the column to times, for example with "
        'pc.cast(table["n"], pa.timestamp("s")) for seconds since 1970',
    ),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the same records, settings, and a release."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, DATA)
    pa.csv.write_csv(TABLE, "data.csv")
    privacy_unit = "privacy_unit: {privacy_id: person, records: {max_records: 2, max_weight: 9}}\nprivacy: {rho: 1}\n"
    Path("ms.yaml").write_text(
        f"{privacy_unit}kind: quantiles\nitem: ms\ndomain: {{type: integer, low: 0, high: 1000}}\n"
    )
    Path("n.yaml").write_text(f"{privacy_unit}kind: frequencies\nitem: city\nweight: n\n")
    write(Path("tree.dpsketch"), TREE)


@pytest.mark.parametrize(("name", "call", "expected", "words"), MISTAKES, ids=[name for name, *_ in MISTAKES])
def test_a_mistake_is_not_silent(name: str, call: Callable[[], Any], expected: Expected, words: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        if isinstance(expected, int):
            code, said = call()
            assert code == expected
        elif issubclass(expected, Warning):
            call()
            said = "\n".join(str(each.message) for each in caught)
        else:
            with pytest.raises(expected) as raised:
                call()
            said = str(raised.value)
    assert words in said
    assert str(PLANTED)[2:] not in said


def test_what_looks_like_a_mistake_and_is_none_is_silent() -> None:
    """Integers that pandas made floats, fractions on a grid of fractions, deletions, columns that the source reads."""
    holes = PANDAS.assign(ms=np.where(np.arange(200) % 2, np.nan, 7.0))
    signed = PrivacyId("person", RecordBounds(9, max_weight=99, signed=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        warnings.filterwarnings("ignore", "privacy_id='person': each privacy id has about one", InputWarning)
        of_frame(holes, quantiles())
        of_frame(holes, frequencies(weight="ms"))
        for table in (TABLE, PANDAS):
            of_frame(table, quantiles(FloatDomain(0, 200, 0.5)))
            of_frame(table, frequencies(signed, weight="n"))
        of_frame(TABLE, quantiles(FloatDomain(0, 200, 0.5), item="paid"))
        frequencies(PrivacyId("person", AutoNorm(max_weight=1000)), weight="n")
        for source in (ReadFromParquet, ReadFromParquetBatched):
            built(source(DATA, columns=["person", "city"]), frequencies())
        frequencies(Record(), windows=YEAR).check([TimestampedValue({"city": "Oslo"}, 1.71e9)])
        FLAT.top_k(2, ["a", "b"])
    assert TREE.range_count(50, 50) == TREE.range_count(np.array([50]), 50)[0]
