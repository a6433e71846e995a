"""What is typed on the page is read as commands read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import BytesDomain, CountSketch, SketchSpec
from beam_dpsketch.answers.counts import ReleasedCounts
from beam_dpsketch.cli.asking import read_values
from beam_dpsketch.errors import UsageError
from beam_dpsketch.exact.sketches.listed_items import ThresholdedItems
from tests.helpers import by_hand

pytestmark = pytest.mark.browser

NUMBERS = "0123456789" * 2 + "++--..eE_x \t\n\x1c\x85\xa0\u2003\ufeff"
BYTES = "0123456789abcdefABCDEF" * 2 + " \t\n\r\v\fgx\u2003é😀\udc80\udfff\ud900"
COUNTS = ReleasedCounts(ThresholdedItems(BytesDomain(1)), np.zeros(0, dtype=np.int64), by_hand.statement())
READ = """({ kind, texts }) => {
  const read = { int: readWhole, bytes: readBytes }[kind];
  return texts.map((text) => {
    try {
      const found = read(text);
      return found === null ? "refused" : typeof found === "bigint" ? found : hexOf(found);
    } catch (error) {
      if (error instanceof Refusal) return "refused";
      throw error;
    }
  });
}"""


def texts_of(alphabet: str, start: str = "") -> list[str]:
    """Random texts of these characters, half of them with this start; none has a surrogate pair in two halves."""
    draws = np.random.default_rng(5)
    lengths = draws.integers(0, 7, 3000)
    made = ["".join(alphabet[place] for place in draws.integers(0, len(alphabet), length)) for length in lengths]
    texts = [start * (number % 2) + text for number, text in enumerate(made)]
    return [text for text in texts if text == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")]


@pytest.mark.parametrize(
    ("kind", "released", "texts"),
    [
        ("int", by_hand.without_noise(CountSketch(SketchSpec(depth=1, width=2))), texts_of(NUMBERS)),
        ("bytes", COUNTS, texts_of(BYTES, "0x")),
    ],
)
def test_numbers_and_bytes(run_js: Callable[[str, Any], Any], kind: str, released: Any, texts: list[str]) -> None:
    expected = []
    for text in texts:
        try:
            (item,) = read_values((text,), released, "int")
            expected.append(item.hex() if isinstance(item, bytes) else str(item))
        except UsageError:
            expected.append("refused")
    assert run_js(READ, {"kind": kind, "texts": texts}) == expected
    assert 100 < expected.count("refused") < len(expected) - 100
