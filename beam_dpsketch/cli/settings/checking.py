"""`dpsketch check`: whether files of settings can be used, and what they mean; with a file of data, its columns too."""

from __future__ import annotations

import argparse
import os
import sys

import pyarrow as pa

from beam_dpsketch.cli.csv_files import TEXT, CsvFile, declared_schema
from beam_dpsketch.cli.files import open_files
from beam_dpsketch.cli.settings.options import read_settings_file
from beam_dpsketch.cli.text import DONE, WRONG_USAGE, UsageError, note, write
from beam_dpsketch.config import ConfigError, read_release
from beam_dpsketch.frames.plan import check_columns, columns_of, negative_words
from beam_dpsketch.frames.tables import open_table
from beam_dpsketch.hashing.encodings import is_unicode
from beam_dpsketch.planning.plan_text import loss_in_words
from beam_dpsketch.records.columns import any_negative, readable_of
from beam_dpsketch.records.reading import any_usable
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.statement.showing import printable

_ENDINGS = (".parquet", ".csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of settings, YAML or JSON")
    parser.add_argument(
        "--against",
        metavar="FILE.parquet|csv",
        help="look whether this file has the columns, and whether its first rows can be used",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each file that can be used, and an error for each other; return 2 if there is one."""
    schema = None if arguments.against is None else read_schema(arguments.against)
    code = DONE
    for path in arguments.files:
        try:
            declared = read_release(read_settings_file(path))
            if schema is not None:
                csv = arguments.against.lower().endswith(".csv")
                given = declared_schema(arguments.against, schema.names, declared) if csv else schema
                _check_columns(declared, given, f"{path} against {arguments.against}")
                _check_first_rows(declared, arguments.against, f"{path} against {arguments.against}")
            write(sys.stdout, printable(f"{path}: OK: {in_words(declared)}") + "\n")
            for words in declared.terms.foolish():
                note(f"{path}: warning: {words}")
        except (UsageError, ConfigError, OSError) as error:
            note(_said(path, error))
            code = WRONG_USAGE
    return code


def _said(path: str, error: Exception) -> object:
    """Return what is said of a file: of settings and of what the system says, with the file before it."""
    if isinstance(error, ConfigError):
        return UsageError.of(error, lambda each: f"{path}: {each.message}")
    return f"{path}: {error.strerror}" if isinstance(error, OSError) else error


def in_words(declared: ReleaseSpec) -> str:
    """Return what is released, for whom, and what it spends, without a key or an item."""
    terms, k = declared.terms, declared.count.wanted
    counted = f"the {k} most frequent values" if k else declared.count.name
    counted += f" of {', '.join(dict.fromkeys(map(str, declared.selectors.items.values())))}"
    weight = "" if declared.weight is None else f", weighted by {declared.weight}"
    whose = "" if declared.privacy_id is None else f" (in {declared.privacy_id.field})"
    bounds = terms.bounds.words(terms.unit, terms.window_count, terms.period_micros)
    return (
        f"{counted}{weight}{_keys(declared)}{_windows(declared)}; protected: {terms.unit.value}{whose}; "
        f"bounds enforced on each: {bounds}; {loss_in_words(terms)}"
    )


def _keys(declared: ReleaseSpec) -> str:
    return "" if declared.keys is None else f", for {declared.keys.words}"


def _windows(declared: ReleaseSpec) -> str:
    if declared.horizon is not None:
        return f", over time in {declared.horizon.windows} windows"
    return "" if declared.windows is None else ", in each window of a declared range"


def read_schema(path: str) -> pa.Schema:
    """Return the names and types of the columns of a Parquet or CSV file; of CSV, the names alone count."""
    ending = os.path.splitext(path)[1].lower()
    if ending not in _ENDINGS:
        raise UsageError(f"--against must end with {' or '.join(_ENDINGS)}")
    try:
        if ending == ".csv":
            return pa.schema([(name, TEXT) for name in CsvFile(path).header() if is_unicode(name)])
        with open(path, "rb") as file:
            import pyarrow.parquet as pq  # only here: it takes time to import

            return pq.read_schema(file)
    except UsageError:
        raise
    except (pa.ArrowException, ValueError):  # the message may hold bytes of the file
        raise UsageError(f"{path!a}: is not a {ending[1:]} file that can be read") from None


def _check_first_rows(declared: ReleaseSpec, against: str, title: str) -> None:
    """Refuse, or warn of, what the types of columns do not tell."""
    found = open_files([against], declared, lambda _: None)
    rows = next(iter(found.reader), None)
    if rows is None:
        return
    try:
        found.check()
    except ConfigError as error:
        raise UsageError.of(error, lambda each: f"{title}: {each.message}") from None
    columns = declared.reader.read_batch(rows, declared.sketch_input)
    for argument, is_any in any_usable(columns, declared.reader, declared.sketch_input).items():
        counted = declared.spec.fields.get(argument)
        if counted is not None and not counted.is_listed and not is_any and len(rows):
            name, readable = columns_of(declared)[argument], readable_of(argument, declared.sketch_input.readables)
            words = f"none of the first {len(rows):,} rows has a value that can be used"
            raise UsageError(f"{title}: {argument}={name!r}: {words}; it must hold {readable.description}")
    weights = columns.weights
    if weights is not None and not declared.unit.bounds.signed and any_negative(weights):
        note(f"{title}: {negative_words(declared.weight)}")


def _check_columns(declared: ReleaseSpec, schema: pa.Schema, title: str) -> None:
    """Refuse columns that `dpsketch run` would refuse."""
    try:
        check_columns(declared, open_table(schema.empty_table(), columns_of(declared).values()))
    except (ValueError, TypeError) as error:
        raise UsageError.of(error, lambda each: f"{title}: {each.message}") from None
