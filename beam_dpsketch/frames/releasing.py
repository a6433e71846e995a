"""`release_frame`: releases of tables that fit on one machine, without Beam.

Guarantee: each release is rho-zCDP for the unit and the neighboring relation in its privacy statement, as in the
private transforms: bounds, exact sums and noise are the same functions. Noise is drawn once per call, and each call is
another release.

The output is one release, or mappings by window and by key, in an order independent of the data.
"""

from __future__ import annotations

import datetime
import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.answers.notes import ONE_RECORD_EACH
from beam_dpsketch.answers.privacy_statement import PrivacyStatement, Unreleased
from beam_dpsketch.config.release import read_release
from beam_dpsketch.encodings import decode, encode
from beam_dpsketch.errors import InputWarning, PrivacyWarning
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains.timestamps import from_micros
from beam_dpsketch.exact.reading.groups import add_wrapping
from beam_dpsketch.exact.sums import vote_rounds
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.frames.steps.drawing import release_counts, release_rows, release_sums
from beam_dpsketch.frames.steps.plan import open_checked, plan_of_table, resolve, tally_of
from beam_dpsketch.frames.steps.sums import Contributed, ExactSums
from beam_dpsketch.frames.steps.tables import TableParts
from beam_dpsketch.frames.steps.windows import Windows, windows_of
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.noise.run import Place, Run, bill_of
from beam_dpsketch.privacy.loss.payment import Uses
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.summary_counts import UNITS
from beam_dpsketch.statement.noisy import NoisyReleases
from beam_dpsketch.statement.provenance import Provenance
from beam_dpsketch.statement.tabular import Note


class Window(NamedTuple):
    """Start and end of a window, in UTC."""

    start: datetime.datetime
    end: datetime.datetime

    @classmethod
    def of(cls, place: Place) -> Window:
        return cls(from_micros(place.start), from_micros(place.end))


def windows_of_table(declared: ReleaseSpec) -> list[Window]:
    """Compute the windows of a table's release, before its rows are read."""
    return [*map(Window.of, windows_of(declared, plan_of_table(declared)).every)]


class _Releases(dict[Any, Any]):
    """Releases by key or by window.

    Attributes:
      unreleased: privacy loss of a run that released no key, or `None`, because each release reports its loss.
    """

    unreleased: Unreleased | None = None

    def __missing__(self, _: Any) -> NoReturn:
        raise KeyError("Nothing was released for this key or window. list(released) contains those with a release")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no {name!r}. Select a release first: released[key].{name}")


class KeyedReleases(_Releases):
    """Releases by key. Under a horizon, timeline rows by key."""


class WindowedReleases(_Releases):
    """Releases by declared window, in the order of time. With keys, a `KeyedReleases` per window."""


def in_order(released: dict[Place, Any], declared: ReleaseSpec, windows: Windows) -> Any:
    """Arrange releases by window and by key: listed keys in their order, other keys by their bytes.

    The order of records would reveal a record.
    """
    if declared.time is None or declared.horizon is not None:
        return _by_key({place.key: each for place, each in released.items()}, declared)
    by_window: dict[Place, dict[tuple[Any, ...], Any]] = defaultdict(dict)
    for place, each in released.items():
        by_window[place._replace(key=())][place.key] = each
    return WindowedReleases({Window.of(each): _by_key(by_window[each], declared) for each in windows.every})


def _by_key(released: dict[tuple[Any, ...], Any], declared: ReleaseSpec) -> Any:
    if not declared.is_keyed:
        return released[()]
    order = declared.public_keys or sorted((key for (key,) in released), key=encode)
    return KeyedReleases({key: released[key,] for key in order if (key,) in released})


@_validate.explained
def release_frame(table: Any, settings: Any) -> Any:
    """Release a table: read its records, bound each unit's contribution, sum exactly, add noise once.

    The release equals the release of the private transform with these settings on the same records in the same windows:
    the same counters before the noise, the same noise parameters, and the same statement. Each call is another release
    and spends again.

    Args:
      table: a pandas or Polars DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or another source of rows
        as an Arrow stream. A reader is read batch by batch, so memory grows only with people and their bounds.
      settings: a `ReleaseSpec`, or input of `config.read_release`: a dict, JSON or YAML text. `windows` and `horizon`
        require `time`, the time column.

    Returns:
      One release. With `keys`, a dict from key to release, whose attribute `unreleased` contains the privacy loss if no
      key was selected. For a top-K list, the release to search: call `released.top_k(k)`. With `windows`, a dict from
      (start, end) to these, for each window in the range. Under a `horizon`, the list of timeline rows for a
      `SketchTimeline`.

    Raises:
      ConfigError: a setting cannot be used, or names a column that the table does not have.
      TypeError: the table has an unsupported type, or a column has a type that cannot be counted.
      BudgetExceededError: the budget share has paid for another release.

    >>> import pyarrow as pa
    >>> visits = pa.table({"person": list(range(1000)), "city": ["Oslo"] * 900 + ["Rome"] * 100})
    >>> unit = {"privacy_id": "person", "records": {"max_records": 1}}
    >>> settings = {"kind": "frequencies", "item": "city", "privacy_unit": unit, "privacy": {"rho": 1}}
    >>> release_frame(visits, settings).top_k(1, ["Oslo", "Rome"]).item
    ('Oslo',)
    >>> days = visits.append_column("day", [["2024-01-01"] * 500 + ["2024-01-02"] * 500])
    >>> settings |= {"windows": ["2024-01-01", "2024-01-04"], "time": {"field": "day", "every": "1d"}}
    >>> [day.start.day for day, released in release_frame(days, settings).items() if released.estimate("Oslo") > 200]
    [1, 2]
    """
    declared = read_declared(settings)
    for words in declared.terms.warnings():
        warnings.warn(words, PrivacyWarning, stacklevel=3)
    released, warned = release_table(table, declared)
    uses = None if declared is settings else Uses.of_settings(declared.identify(declared.terms))
    declared.privacy.note_use(table, object(), uses)
    for words in warned:
        warnings.warn(words, InputWarning, stacklevel=3)
    return released


def read_declared(settings: Any) -> ReleaseSpec:
    """Read settings: a `ReleaseSpec` unchanged, or input of `config.read_release`."""
    return settings if isinstance(settings, ReleaseSpec) else read_release(settings)


def release_table(table: Any, declared: ReleaseSpec, secret: KeyedRandomness | None = None) -> tuple[Any, list[str]]:
    """Release like `release_frame`, and return its warnings about columns with values that do not count.

    Args:
      table: see `release_frame`.
      declared: the declared release.
      secret: source of sampling and noise, as in a pipeline with idempotent noise, under a release id. `None` uses
        system entropy.
    """
    ready = TableRelease(open_checked(table, declared), declared, secret)
    return ready.release(ready.contributed()), ready.told()


class TableRelease:
    """Table before its release, checked so that a ledger account could pay for it now.

    Args:
      opened: the table.
      declared: the declared release.
      secret: see `release_table`.
    """

    def __init__(self, opened: TableParts, declared: ReleaseSpec, secret: KeyedRandomness | None = None) -> None:
        resolved, plan = resolve(declared)
        self._windows, self._tally = windows_of(declared, plan), tally_of(declared, opened)
        self._declared, self._terms = declared, resolved.terms
        self._bill = bill_of(resolved, self._windows.edges, is_idempotent=secret is not None)
        self._resolved = resolved.paid(resolved.terms.without_budget())
        self._provenance = Provenance.of(declared, resolved.terms, self._windows.edges)
        self._notes: Sequence[Note] = ()
        if secret is not None:
            declared.check_replayable()
            secret = secret.derive(declared.identify(self._resolved.terms, self._windows.edges))
        parts = itertools.chain([opened.empty], opened.parts)
        self._run = Run(secret) if self._bill is None else Run(secret, Run(secret).name())
        self._sums = ExactSums(self._resolved, plan, self._windows, parts, self._tally, self._pay, secret)
        if self._bill is not None and secret is None:  # a run with an equal secret may be paid for already
            self._bill.check()

    def contributed(self) -> Contributed:
        return self._sums.contributed()

    def kept_ids(self, contributed: Contributed) -> dict[Any, float]:
        """Sum the clipped privacy ids of each key."""
        column, one = self._sums.sketch_input.side_columns[UNITS], 1 << self._sums.sketch_input.scale_bits
        (sums,) = self._sums.by_window(contributed).values()
        keys = map(decode, sums.keys.to_pylist()) if self._declared.is_keyed else [None]
        return dict(zip(keys, (sums.side[:, column].sum(axis=1) / one).tolist(), strict=True))

    def _pay(self) -> None:
        """Raise if the table is unreadable, otherwise pay, as late as the noise permits. Repeated payments are free."""
        self._tally.refuse(drops=self._declared.unreadable == "drop")
        if self._bill is not None:
            self._bill.pay(self._run.name())
        elif self._terms.privacy.payer is None:
            self._terms.paying_for(self._sums)

    def _read(self, noisy: NoisyReleases) -> Iterator[Any]:
        return answers_of(noisy.stamped(self._provenance, is_dated=self._declared.date))

    def release(self, contributed: Contributed) -> Any:
        """Release the summed contributions, per window and key."""
        declared, run = self._declared, self._run
        noise: Calibration | Counting
        released: dict[Place, Any]
        if declared.count.by_item:
            noise = self._resolved.noise(Counting)
            counts = self._sums.by_pair(contributed)
            self._pay()
            for window, added in self._sums.vote_twice(contributed, noise.choice, run):
                for pair, row in vote_rounds.as_rows(added):
                    counts[window][pair] = add_wrapping(counts[window][pair], row)
            released = release_counts(counts, declared, noise.with_norm(contributed.max_norm), run, self._read)
        else:
            noise = self._resolved.noise(Calibration)
            exact = self._sums.by_window(contributed)
            self._pay()
            for window, added in self._sums.vote_twice(contributed, noise.choice, run):
                exact[window] = KeyedSums.merged([exact[window], added])
            if declared.horizon is None:
                released = release_sums(exact, contributed, declared, noise, run, self._read)
            else:
                released = release_rows(exact, declared.horizon, noise, run, self._read)
        found = in_order(released, declared, self._windows)
        if declared.is_keyed and not released and self._resolved.terms.selection is not None:
            found.unreleased = Unreleased(PrivacyStatement.from_stated(run.spent_alone(noise)))
        self._notes = getattr(found, "notes", ())
        return found

    def told(self) -> list[str]:
        """List the messages about the data, after reading all of it."""
        declared, told = self._declared, self._tally.told(is_signed=self._declared.privacy_unit.bounds.signed)
        notes = [each for each in self._notes if each is ONE_RECORD_EACH]
        return [*told, *(f"privacy_id={declared.selectors.privacy_id!r}: {each.message}" for each in notes)]
