"""Hashes are part of the file format: the values in `vectors/hashing_v1.json` never change."""

from __future__ import annotations

import ast
import json
import os
import pathlib
import subprocess
import sys

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.hashing.fingerprints import HASH_VERSION, fingerprints
from tests.helpers import derivations, strategies

_FILE = pathlib.Path(__file__).parents[2] / "vectors" / "hashing_v1.json"
_GOLDEN = json.loads(_FILE.read_text())
_KEY = bytes.fromhex(_GOLDEN["item_key"])
_VECTORS = [pytest.param(vector, id=vector["item"][:40]) for vector in _GOLDEN["vectors"]]

_PRINT_ALL = """
import json, sys, ast
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.hashing.fingerprints import fingerprints
items = [ast.literal_eval(text) for text in json.load(sys.stdin)]
hashes = [fingerprints(items), fingerprints(items, item_hash="blake2b", item_key=bytes(range(16)))]
print(json.dumps([[values.tolist(), cells.columns(values, seed=9, row=2, width=999).tolist()] for values in hashes]))
"""


def test_the_file_is_of_this_hash_version():
    assert _GOLDEN["hash_version"] == HASH_VERSION


@pytest.mark.parametrize("vector", _VECTORS)
def test_items_have_their_golden_encoding_fingerprints_and_cells(vector):
    item = ast.literal_eval(vector["item"])
    assert encode(item).hex() == vector["encoding"]
    murmur3 = fingerprints([item])
    assert f"{murmur3[0]:016x}" == vector["murmur3"]
    assert f"{fingerprints([item], item_hash='blake2b', item_key=_KEY)[0]:016x}" == vector["blake2b"]
    for shape in vector["cells"]:
        row_cells = [
            cells.columns_and_signs(murmur3, seed=shape["seed"], row=row, width=shape["width"])
            for row in range(len(shape["columns"]))
        ]
        assert [int(columns[0]) for columns, _ in row_cells] == shape["columns"]
        assert [int(signs[0]) for _, signs in row_cells] == shape["signs"]


@pytest.mark.parametrize("vector", _VECTORS)
def test_golden_values_follow_from_a_second_derivation(vector):
    item = ast.literal_eval(vector["item"])
    assert derivations.encoding(item).hex() == vector["encoding"]
    assert f"{derivations.fingerprint(item, 'murmur3', b''):016x}" == vector["murmur3"]
    assert f"{derivations.fingerprint(item, 'blake2b', _KEY):016x}" == vector["blake2b"]
    for shape in vector["cells"]:
        for row, expected in enumerate(zip(shape["columns"], shape["signs"], strict=True)):
            fingerprint = int(vector["murmur3"], 16)
            assert derivations.cell(fingerprint, seed=shape["seed"], row=row, width=shape["width"]) == expected


@given(data=st.binary(max_size=70))
def test_the_second_derivation_of_murmur3_is_murmur3(data):
    assert derivations.murmur3_x64_128(data) == mmh3.hash_bytes(data, 0, True)


@given(items=strategies.item_lists, key=st.binary(min_size=16, max_size=16))
def test_fingerprints_equal_the_second_derivation(items, key):
    assert fingerprints(items).tolist() == [derivations.fingerprint(item, "murmur3", b"") for item in items]
    assert fingerprints(items, item_hash="blake2b", item_key=key).tolist() == [
        derivations.fingerprint(item, "blake2b", key) for item in items
    ]


@given(
    values=st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=8),
    seed=st.integers(0, (1 << 64) - 1),
    row=st.integers(0, 63),
    width=st.one_of(st.integers(1, 1 << 26), st.integers(0, 26).map(lambda bits: 1 << bits)),
)
def test_cells_equal_the_second_derivation(values, seed, row, width):
    array = np.array(values, dtype=np.uint64)
    columns, signs = cells.columns_and_signs(array, seed=seed, row=row, width=width)
    expected = [derivations.cell(value, seed=seed, row=row, width=width) for value in values]
    assert list(zip(columns.tolist(), signs.tolist(), strict=True)) == expected
    assert cells.columns(array, seed=seed, row=row, width=width).tolist() == columns.tolist()
    assert array.tolist() == values


@pytest.mark.slow
def test_another_process_with_another_hash_seed_gives_the_same_cells():
    texts = [vector["item"] for vector in _GOLDEN["vectors"]]
    answers = {
        subprocess.run(
            [sys.executable, "-c", _PRINT_ALL],
            input=json.dumps(texts),
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    items = [ast.literal_eval(text) for text in texts]
    hashes = [fingerprints(items), fingerprints(items, item_hash="blake2b", item_key=bytes(range(16)))]
    here = [[values.tolist(), cells.columns(values, seed=9, row=2, width=999).tolist()] for values in hashes]
    assert [json.loads(answer) for answer in answers] == [here]
