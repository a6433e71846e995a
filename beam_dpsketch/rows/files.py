"""File transforms with plain settings: release rows to and from files, and Parquet files as Arrow tables.

Annotations are not strings, because Beam YAML reads the signatures.
"""

from collections.abc import Iterator
from typing import Any, Optional

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io import fileio

from beam_dpsketch import transforms as python
from beam_dpsketch.config.forms import read_choice, read_flag, read_text
from beam_dpsketch.config.paths import refusal
from beam_dpsketch.config.plain import plain
from beam_dpsketch.errors import ConfigError, RefusalError
from beam_dpsketch.rows.base import RowTransform, read_encoding
from beam_dpsketch.rows.queries import check_releases
from beam_dpsketch.rows.schema import columns_of, release_columns, row_type, to_release, to_release_row
from beam_dpsketch.statement.showing import is_numbered, key_columns
from beam_dpsketch.transforms.files import open_file

_KEYS = {"text": str, "integer": int, "bytes": bytes}


class WriteReleases(RowTransform):
    """Write release rows to files that `dpsketch` and ReadReleases can read.

    Each release in a file has spent budget. Therefore, files from an earlier run are an error unless overwrite is true.
    Outputs a row with the name of each written file.

    Args:
      path: prefix of the file names, as out/cities.
      overwrite: whether to replace existing releases with the same names.
    """

    def __init__(self, path: str, overwrite: Optional[bool] = None) -> None:
        prefix, replaces = read_text(path, "path"), overwrite is not None and read_flag(overwrite, "overwrite")
        try:
            self._write = python.WriteReleases(prefix, overwrite=replaces)
        except RefusalError as error:
            raise error.at(places={"file_path_prefix": "path"}) from None

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        known = columns_of(pcoll)
        check_releases(known)
        return (
            pcoll
            | f"Read {self.step}" >> beam.Map(_element, [*known])
            | f"Write {self.step}" >> self._write
            | f"Names {self.step}" >> beam.Map(_name_row).with_output_types(row_type({"path": str}))
        )


class ReadReleases(RowTransform):
    """Read release files written by WriteReleases, Python pipelines or `dpsketch run`.

    Args:
      path: a file, or a pattern with wildcards, on any filesystem that Beam supports.
      key: text, integer or bytes, if each release has a key with this type. Output rows then have a column key. For
        several columns, their names and types in order, as {country: text, day: text}.
      over_time: whether the files contain timeline rows. Output rows then have a column row.
      encoding: encoding of releases in output rows, bytes or base64.
    """

    _yaml_requires_inputs = False

    def __init__(
        self, path: str, key: Optional[Any] = None, over_time: Optional[bool] = None, encoding: Optional[str] = None
    ) -> None:
        self._path = read_text(path, "path")
        kinds = {} if key is None else key if isinstance(key := plain(key, "key"), dict) else {"key": key}
        self._keys = {name: read_choice(_KEYS)(kind, "key") for name, kind in kinds.items()}
        self._over_time = over_time is not None and read_flag(over_time, "over_time")
        self._is_text = read_encoding(encoding)

    def expand(self, pbegin: Any) -> beam.PCollection:
        columns = release_columns(self._keys, over_time=self._over_time, is_text=self._is_text)
        to_row = beam.Map(_read_row, self._keys, over_time=self._over_time, is_text=self._is_text)
        return (
            pbegin
            | f"Files {self.step}" >> python.ReadReleases(self._path)
            | f"Rows {self.step}" >> to_row.with_output_types(row_type(columns))
        )


class ReadParquetBatches(RowTransform):
    """Read Parquet files as Arrow tables, which private transforms count several times faster than rows.

    Only private transforms in this package accept the output. The tables have no timestamps. Use ReadFromParquet if you
    need windows.

    Args:
      path: a file, or a pattern with wildcards, on any filesystem that Beam supports.
      columns: the fields to read, by default all fields.
    """

    _yaml_requires_inputs = False

    def __init__(self, path: str, columns: Optional[list[str]] = None) -> None:
        self._path = read_text(path, "path")
        if columns is not None and (not isinstance(columns, (list, tuple)) or not columns):
            given = "an empty list" if isinstance(columns, (list, tuple)) else type(columns).__name__
            raise refusal("columns", f"expected a list of field names, such as [person, city], got {given}")
        self._columns = None if columns is None else [read_text(name, "columns") for name in columns]

    @property
    def _source(self) -> Any:
        """Attribute with which Beam's Parquet sources expose their columns. Here, the transform itself."""
        return self

    def expand(self, pbegin: Any) -> beam.PCollection:
        """Read each row group, with INT96 times in microseconds, because nanoseconds overflow in the year 2262."""
        files = fileio.MatchFiles(self._path, fileio.EmptyMatchTreatment.DISALLOW)
        return (
            pbegin
            | f"Match {self.step}" >> files
            | f"Groups {self.step}" >> beam.FlatMap(_groups).with_output_types(tuple[str, int])
            | f"Spread {self.step}" >> beam.Reshuffle()
            | f"Read {self.step}" >> beam.Map(_read_group, self._columns).with_output_types(pa.Table)
        )


def _groups(file: Any) -> Iterator[tuple[str, int]]:
    with open_file(file.path) as opened:
        yield from ((file.path, group) for group in range(pq.ParquetFile(opened).num_row_groups))


def _read_group(place: tuple[str, int], columns: list[str] | None) -> pa.Table:
    path, group = place
    with open_file(path) as opened:
        return pq.ParquetFile(opened, coerce_int96_timestamp_unit="us").read_row_group(group, columns)


def _element(row: Any, known: list[str]) -> Any:
    """Pair a release with its key. A row may have other columns, such as a label."""
    released = to_release(row)
    names = released.privacy.key_names
    columns = [*key_columns(names, names)] if names else [*filter(is_numbered, known)]
    if missing := [name for name in columns if name not in known]:
        words = f"expected rows with a field for each column of the key, which lack {', '.join(missing)}. Keep them"
        raise ConfigError("input", words, "E813")
    values = tuple(getattr(row, name) for name in columns)
    return (values[0] if columns == ["key"] else values, released) if columns else released


def _read_row(element: Any, types: dict[str, type], *, over_time: bool, is_text: bool) -> beam.Row:
    key, released = element if isinstance(element, tuple) else (None, element)
    if released.is_row != over_time:
        words = (
            "contains timeline rows. Set over_time: true"
            if not over_time
            else "contains no timeline rows. Remove over_time"
        )
        raise ConfigError("path", f"a file {words}")
    if not types and isinstance(element, tuple):
        raise ConfigError(
            "key", "is required, because a file contains releases of keys. Set the key type, such as key: text"
        )
    fields = key_columns(key, released.privacy.key_names) if types else {}
    if [*fields] != [*types] or not all(isinstance(fields[name], kind) for name, kind in types.items()):
        raise ConfigError("key", "a file contains a release without a key of this type")
    return to_release_row(fields, released, is_text=is_text)


def _name_row(path: str) -> beam.Row:
    return beam.Row(path=path)
