"""Each type that Arrow has, in each form, counts as the same values in rows, and never raises for a value."""

from __future__ import annotations

import datetime
import functools
import itertools
import random
from collections import Counter
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from beam_dpsketch import ListedItems, SketchSpec, TextDomain
from beam_dpsketch import columns as _columns
from beam_dpsketch.exact.reading.columns import encode_ids
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import RecordReader, read_table, read_units
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.exact.sketches.listed_items import ThresholdedItems
from tests.helpers import laws
from tests.helpers.arrow_forms import OPAQUE, UNDECODABLE, VALUES, Form, forms, opaque, row_value
from tests.helpers.counted import BOUNDS, DAY, RECIPES, counted

FLAT, BY_TIME = RECIPES[0], RECIPES[5]
ITEM_RECIPES = [
    *RECIPES,
    SketchInput(SketchSpec(depth=1, width=16, item_hash="blake2b", item_key=b"0" * 16), BOUNDS),
    SketchInput(ListedItems(["Oslo", "", "Łódź 🚲", b"Oslo", b"\xff\xfe", 0, 1, -1, (1 << 64) - 1]), BOUNDS),
    SketchInput(ThresholdedItems(TextDomain(6)), BOUNDS),
]
TEXTS = (pa.string(), pa.large_string(), pa.string_view())
GOOD = {"user": "u", "key": "k", "item": "a", "n": 1}
REFUSED = "refused"


@functools.cache
def cases() -> list[tuple[str, SketchInput, pa.DataType, Form]]:
    """Each role, type and form; items in each kind of sketch."""
    roles = [*itertools.product(["item"], ITEM_RECIPES), *((role, FLAT) for role in ("user", "key", "n"))]
    with_text = {kind: [*VALUES[kind], *UNDECODABLE, "Rome"] for kind in TEXTS}
    columns = [*VALUES.items(), *with_text.items()]
    every_form = [(kind, form) for kind, values in columns for form in forms(values, kind)]
    return [(*role, *column) for column in every_form for role in roles]


def table_of(role: str, column: Any) -> pa.Table:
    others = {name: pa.array([value] * len(column)) for name, value in GOOD.items() if name != role}
    return pa.table({**others, role: column})


def rows_of(role: str, values: list[Any]) -> list[dict[str, Any]]:
    return [{**GOOD, role: value} for value in values]


def found_of(elements: list[Any], role: str, recipe: SketchInput) -> Any:
    """What is counted, for whom and under which key; of a type that never counts, that it is refused."""
    by_item = isinstance(recipe.spec, ThresholdedItems)
    reader = RecordReader(Selectors(item="item", weight="n", privacy_id="user"), per_key=False, by_item=by_item)
    try:
        read = reader.read_rows(elements) if type(elements[0]) is dict else reader.read_batch(elements[0], recipe)
        if by_item:
            return Counter(read_units(reader, read, recipe)["key"].to_pylist())
        ids = Counter(encode_ids(read_table(reader, read, BOUNDS, recipe)["unit"]).to_pylist())
        return ids, counted(elements, recipe, key="key" if role == "key" else None)
    except TypeError as error:
        name = {"n": "weight", "user": "privacy_id"}.get(role, role)
        if not str(error).startswith(f"{name}='{role}' must contain "):
            raise
        return REFUSED


def difference(role: str, recipe: SketchInput, kind: pa.DataType, form: Form) -> str | None:
    """What is wrong with a column in this form: it is compared with rows, or all of its type are refused."""
    name, held, values = form
    case = f"{name} of {kind} as {role} of {getattr(recipe.spec, 'domain', recipe.spec)}"
    try:
        found = found_of([table_of(role, held)], role, recipe)
        empty = found_of([table_of(role, held[:0])], role, recipe)
    except Exception as error:
        return f"{case}: {type(error).__name__}"
    if REFUSED in (found, empty):
        return None if found == empty and not _counts(kind, role) else f"{case}: is refused, or some of it"
    expected = found_of(rows_of(role, [row_value(value, kind) for value in values] or [None]), role, recipe)
    return None if found == expected else f"{case}: counts differ"


def _counts(kind: pa.DataType, role: str) -> bool:
    """Whether some values of this type count in rows, in a flat sketch."""
    if role == "n":
        return pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)
    if role != "item" and (pa.types.is_date(kind) or pa.types.is_decimal(kind)):
        return pa.types.is_date(kind) or kind.scale == 0
    counting = any(isinstance(value, (str, bytes, int)) and not isinstance(value, bool) for value in VALUES[kind])
    return role != "item" and counting


def differences(some: Any) -> list[str]:
    return [each for each in itertools.starmap(difference, some) if each is not None]


def test_a_sample_of_types_and_forms_counts_as_rows() -> None:
    assert differences(random.Random(1).sample(cases(), 250)) == []


@pytest.mark.slow
def test_every_type_in_every_form_counts_as_rows() -> None:
    assert len(cases()) > 10_000
    assert differences(cases()) == []


def _ignore_slices(values: Any) -> Any:
    if not pa.types.is_run_end_encoded(values.type):
        return PLAIN(values)
    return PLAIN(pa.RunEndEncodedArray.from_arrays(values.run_ends, values.values)).slice(0, len(values))


def _keep_codes_narrow(values: Any) -> Any:
    if not pa.types.is_dictionary(values.type):
        return PLAIN(values)
    return pa.DictionaryArray.from_arrays(values.indices, PLAIN(values.dictionary), safe=False)


PLAIN = _columns._decode


def check_texts() -> None:
    of_text = [case for case in cases() if case[1] is FLAT and case[2] in TEXTS]
    assert differences(random.Random(1).sample(of_text, 100)) == [], "counts differ"


FAULTS = {
    "undecodable text is kept": laws.put(_columns, "_mask_undecodable", lambda values: values),
    "views are kept": laws.put(_columns, "_LARGE", {}),
    "the offset of a slice is ignored": laws.put(_columns, "_decode", _ignore_slices),
    "small dictionaries are joined as they are": laws.put(_columns, "_decode", _keep_codes_narrow),
}
test_a_planted_fault_is_found = laws.mutants(FAULTS, check_texts, words="counts differ")


@pytest.mark.parametrize("kind", OPAQUE, ids=str)
def test_extensions_and_unions_are_refused_with_and_without_rows(kind: pa.DataType) -> None:
    for role, rows in itertools.product(GOOD, (0, 2)):
        for recipe in ITEM_RECIPES if role == "item" else [FLAT]:
            assert found_of([table_of(role, opaque(kind)[:rows])], role, recipe) == REFUSED


@pytest.mark.parametrize("make", [pa.Table.to_pandas, pa.Table.to_batches], ids=["pandas", "batches"])
def test_frames_of_arrow_columns_and_batches_count_as_tables(make: Any) -> None:
    """Pandas keeps columns of Arrow, undecodable text too."""
    arrow = {"types_mapper": pd.ArrowDtype} if make == pa.Table.to_pandas else {}
    for kind in (*TEXTS[:2], pa.binary(), pa.int8(), pa.float64()):
        given = [*VALUES[kind], *(UNDECODABLE if kind in TEXTS else [])]
        for _, held, _ in itertools.islice(forms(given, kind), 0, None, 3):
            if isinstance(held, pa.Array) and not pa.types.is_run_end_encoded(held.type):
                for role in GOOD:
                    table = table_of(role, held)
                    made = make(table, **arrow)
                    elements = made[:1] if isinstance(made, list) else [made]
                    assert found_of(elements, role, FLAT) == found_of([table], role, FLAT), (kind, role)


def test_times_beyond_the_calendar_of_python_move_to_the_end_of_a_domain_in_a_dictionary_too() -> None:
    """Python has no such day, so an error would hold the value."""
    times = pa.array([1 << 60, None, -(1 << 60)], pa.timestamp("s"))
    assert found_of([table_of("item", times.dictionary_encode())], "item", BY_TIME) == found_of(
        rows_of("item", [DAY + datetime.timedelta(99), None, DAY - datetime.timedelta(99)]), "item", BY_TIME
    )
