"""Groups of rows are those that a dictionary of lists would hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.exact.reading.groups import dictionary_codes, group_rows


@given(
    codes=st.lists(st.integers(0, 5)), count=st.integers(0, 5), dtype=st.sampled_from([np.uint8, np.int32, np.int64])
)
def test_each_code_has_its_rows_in_order(codes: list[int], count: int, dtype: type) -> None:
    order, groups = group_rows(np.array(codes, dtype=dtype), count)
    assert sorted(order.tolist()) == list(range(len(codes)))
    found = [order[group].tolist() for group in groups]
    assert found == [[row for row, each in enumerate(codes) if each == code] for code in range(count)]


@given(st.lists(st.lists(st.sampled_from([b"a", b"b", b"c"])), min_size=1))
def test_codes_point_to_the_distinct_values(chunks: list[list[bytes]]) -> None:
    column = pa.chunked_array(chunks, pa.large_binary())
    codes, distinct = dictionary_codes(column)
    assert [distinct[code].as_py() for code in codes.tolist()] == column.to_pylist()
    assert len(set(distinct.to_pylist())) == len(distinct)
