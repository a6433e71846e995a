"""Whose noise is smaller? ``python -m benchmarks.accuracy.noise_peers`` compares libraries at equal promises.

A promise is epsilon alone, or epsilon at delta 1e-6. It is kept for a person who is added or removed, by all releases
together: one, or five. Each person has 1, 3, 10 or 30 records, of as many different items or all of one item ("30 of
one item"). Bounds take nothing away. The tables:

  listed       root mean square error of counts of 200 listed items
  keys         that of counts of records of 200 public keys, as with PipelineDP's `public_partitions`
  alone        expected number of keys that the data choose: 10,000 people have items drawn from 20,000 by 1 / rank^1.05
  chosen       the same with a count of each: "A; B" is the expected number of keys, and the noise of one count
  weights      error of sums over 10 keys: 20,000 people have one weight each, of a Pareto law with tail index 1.3, and
               each library the bound that is best for each of 20 data sets; median over these
  real         releases with fresh noise, beside what is expected of them

All but the last are exact: they follow from the noise parameters that each library gives. The columns:

  ours         the least noise among the bounds that suit, without summary counts. "by" says which noise, and whether
               the bound is `RecordBounds` or a `NormBound` as long as all different items together
  counted      the same with the default summary counts
  PDP          PipelineDP, by Laplace and by Gaussian noise, with its usual accountant. "PLD": the better of both by its
               accountant of loss distributions, which it calls experimental. With chosen keys, half is spent on keys;
               "post" is `post_aggregation_thresholding`, for numbers of people alone
  OpenDP       its discrete Laplace and discrete Gaussian, by its own map; with chosen keys the better of both
  plain        a histogram in numpy with a Laplace, or with the analytic Gaussian. Losses of Laplaces add up by their
               distribution, and those of Gaussians by squares of lengths
  ratio        our error over the least of all others, at most 1.03; of keys alone, our number over the largest of all
               others, at least 0.97
  keys, noise  our number of keys over the largest of all others, at least 0.97; and our noise over the least of those
               with as many keys, at most 1.03

Below a table stands why a bar is missed. Other libraries: ``pip install 'beam-dpsketch[peers,test]'``. Takes a minute.
"""

from __future__ import annotations

import logging

from benchmarks.accuracy.noise_peers import counts, keys, peers, real, weights
from benchmarks.accuracy.noise_peers.promises import DELTA
from benchmarks.command import Command


def main() -> None:
    """Print all tables."""
    for name in ("pipeline_dp", "opendp", "dp_accounting"):
        peers.module(name)
    libraries = ("pipeline-dp", "python-dp", "opendp", "dp-accounting")
    command = Command(__file__, __doc__, "numpy", "apache-beam", "beam-dpsketch", *libraries)
    arguments = command.parse_args()
    logging.disable(logging.WARNING)
    with command.writing(
        arguments,
        f"One promise for all releases together: epsilon, or epsilon at delta {DELTA:g}, ADD_OR_REMOVE_ONE.",
        f"Seeds of the data: the number of items; of weights 0 to {weights.SEEDS - 1}.",
        "Exact, but for the last two tables, whose noise is from the operating system.",
    ):
        counts.measure()
        keys.alone()
        keys.with_counts()
        weights.measure()
        real.measure()


if __name__ == "__main__":
    main()
