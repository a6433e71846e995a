"""Find the phrases that occur in most paragraphs of a text, without a list of candidates and without a tree.

Input: text files with a paragraph per line (`--input`), by default Python's own manual in `pydoc_data.topics`.
Output: the phrases of `--size` words whose noisy number of paragraphs exceeds a threshold, in files that begin with
`--output`. The program reads the k most frequent phrases from these files and prints them.

    python -m pipelines.frequent_phrases --size=2 --k=20

The privacy unit is a paragraph. It counts once for each of its phrases, clipped to the norm `--max_norm`. A
paragraph with max_norm^2 different phrases counts in full. Arguments that --help does not list are passed to Beam.
"""

import itertools
import re
from collections.abc import Iterator
from pydoc_data.topics import topics
from typing import Any, NamedTuple

import apache_beam as beam

from beam_dpsketch import NormBound, PrivacyId, PrivacySpec, TextDomain, Thresholding
from beam_dpsketch.answers.counts import ReleasedCounts
from beam_dpsketch.transforms import PrivateTopK, WriteReleases
from pipelines.running import interval, parsed, parser, read_release

MANUAL = "the manual of Python"
DELTA = 1e-8  # for the threshold, less than 1 / (number of paragraphs)
MAX_BYTES = 48


class Phrase(NamedTuple):
    """A phrase and its paragraph."""

    paragraph: str
    phrase: str


def manual() -> list[str]:
    return list(itertools.chain.from_iterable(text.split("\n\n") for text in topics.values()))


class ReadParagraphs(beam.PTransform):
    """Read paragraphs from files, or from the manual."""

    def __init__(self, file_pattern: str) -> None:
        super().__init__()
        self._pattern = file_pattern

    def expand(self, pbegin: beam.Pipeline) -> beam.PCollection:
        if self._pattern == MANUAL:
            return pbegin | beam.Create(manual())
        return pbegin | beam.io.ReadFromText(self._pattern)


def phrases(paragraph: str, size: int) -> Iterator[Phrase]:
    """Yield all phrases in a paragraph. Its text is its privacy id, and equal paragraphs are merged."""
    words = re.findall("[a-z]+", paragraph.lower())
    for each in zip(*(words[start:] for start in range(size)), strict=False):
        yield Phrase(paragraph, " ".join(each))


def find_phrases(privacy: PrivacySpec, k: int, max_norm: int) -> PrivateTopK[Any]:
    """Build the transform from phrases to a private list of the most frequent phrases, with its release."""
    bounds = NormBound(max_norm, max_per_item=1, max_keys=8 * max_norm**2)
    paragraph = PrivacyId("paragraph", bounds)
    return PrivateTopK(
        TextDomain(MAX_BYTES), privacy, k=k, item="phrase", privacy_unit=paragraph, method=Thresholding(DELTA)
    )


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__.splitlines()[0], output="out/frequent_phrases")
    arguments.set_defaults(input=MANUAL)
    arguments.add_argument("--size", type=int, default=2, help="words of a phrase (%(default)s)")
    arguments.add_argument("--k", type=int, default=20, help="how many phrases to print (%(default)s)")
    arguments.add_argument("--max_norm", type=int, default=4, help="how much of a paragraph counts (%(default)s)")
    known, pipeline = parsed(arguments, argv)
    search = find_phrases(known.privacy, known.k, known.max_norm)
    print(search.explain())

    with pipeline:
        found = (
            pipeline
            | ReadParagraphs(known.input)
            | "Phrases" >> beam.FlatMap(phrases, known.size).with_output_types(Phrase)
            | search
        )
        found | WriteReleases(known.output, overwrite=known.overwrite)

    released = read_release(known.output)
    assert isinstance(released, ReleasedCounts)
    print(f"\n{len(released):,} phrases were released; the most frequent, by paragraphs, with 95 % intervals:")
    for each in released.top_k(known.k):
        print(f"  {each.item:24}{each.estimate:8,.0f}   {interval(each)}")
    print(released.privacy)


if __name__ == "__main__":
    main()
