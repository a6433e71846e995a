"""`release_frame`: a release of a table that fits one machine, without Beam.

Guarantee: each release is rho-zCDP for the unit and the neighbouring relation that its privacy statement names, as
those of the private transforms are: bounds, exact sums and noise are the same functions. Noise is drawn once a call,
and each call is one more release.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any, cast

from beam_dpsketch.answers.released import Released
from beam_dpsketch.engine.calibration import Calibration, DeclaredCalibration
from beam_dpsketch.engine.counting import Counting
from beam_dpsketch.engine.run import Place, Run, Sum
from beam_dpsketch.errors import ElementsWarning, PrivacyWarning
from beam_dpsketch.frames.plan import negative_words, open_checked, read_declared, resolve, unused_words
from beam_dpsketch.frames.sums import Contributed, ExactLost, ExactSums
from beam_dpsketch.frames.tables import TableParts
from beam_dpsketch.hashing.encodings import decode, encode, is_unicode
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.groups import split_pair
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.unused import Unused
from beam_dpsketch.statement.accounting import Unreleased


class KeyedReleases(dict[Any, Released]):
    """The release of each key.

    Attributes:
      unreleased: what was spent, if the data chose the keys and chose none; else `None`, as each release says it.
    """

    unreleased: Unreleased | None = None


def release_frame(table: Any, settings: Any) -> Any:
    """Release a table: read its records, bound what each unit contributes, sum exactly, add noise once.

    The release is what `PrivateFrequencies`, `PrivateQuantiles` or `PrivateTopK` makes of the same records in the
    global window: equal counters before the noise, equal noise parameters, an equal statement. Each call is another
    release and spends again.

    Args:
      table: a pandas or Polars DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or what else offers its
        rows as an Arrow stream. A reader is read batch by batch: memory then grows with people and their bounds.
      settings: a `ReleaseSpec`, or what `config.read_release` reads: a dict, JSON or YAML text. Without `windows`,
        `horizon` and `max_windows`, which need event times.

    Returns:
      One release; or with `keys`, a dict from key to release, whose attribute `unreleased` says what was spent where no
      key was chosen. Of a top-K list it is the release that is searched: ask
      `released.top_k(k)`.

    Raises:
      ConfigError: a setting cannot be used, or names a column that the table does not have.
      TypeError: the table is not one, or a column is of a type that does not count.
      BudgetExceededError: the part of a budget has paid for another release.

    >>> import pyarrow as pa
    >>> visits = pa.table({"person": list(range(1000)), "city": ["Oslo"] * 900 + ["Rome"] * 100})
    >>> unit = {"privacy_id": "person", "records": {"max_per_key": 1}}
    >>> settings = {"kind": "frequencies", "item": "city", "unit": unit, "privacy": {"rho": 1}}
    >>> release_frame(visits, settings).top_k(1, ["Oslo", "Rome"]).item
    ('Oslo',)
    """
    declared = read_declared(settings)
    for words in declared.terms.foolish():
        warnings.warn(words, PrivacyWarning, stacklevel=2)
    released, warned = release_table(table, declared)
    for words in warned:
        warnings.warn(words, ElementsWarning, stacklevel=2)
    return released


def release_table(table: Any, declared: ReleaseSpec, secret: KeyedRandomness | None = None) -> tuple[Any, list[str]]:
    """Return what `release_frame` does, and what it warns of: columns whose values do not count.

    Args:
      table: see `release_frame`.
      declared: what is released.
      secret: what sampling and noise are made from, as of a pipeline with idempotent noise, under a release id; `None`
        takes the entropy of the system.
    """
    ready = TableRelease(*open_checked(table, declared), declared, secret)
    return ready.release(ready.contributed()), ready.warned()


class TableRelease:
    """A table before its release; a part of a budget has paid.

    Args:
      opened: the table.
      warned: what is to be warned of already.
      declared: what is released.
      secret: see `release_table`.
    """

    def __init__(
        self, opened: TableParts, warned: list[str], declared: ReleaseSpec, secret: KeyedRandomness | None = None
    ) -> None:
        resolved, self._opened, self._warned = resolve(declared), opened, warned
        self._declared, self._resolved = declared, resolved.paying_for(object())
        self._unused = Unused(declared.selectors, declared.sketch_input.readables)
        secret = None if secret is None else secret.derive(declared.identify(self._resolved.terms))
        parts = itertools.chain([opened.empty], opened.parts)
        self._run, self._sums = Run(secret), ExactSums(self._resolved, parts, self._unused, secret)

    def contributed(self) -> Contributed:
        """Read and bound all records, once."""
        return self._sums.contributed()

    def release(self, contributed: Contributed) -> Any:
        """Return the release of what the records add up to, or one for each key."""
        declared, run = self._declared, self._run
        noise: Calibration | Counting
        if declared.count.by_item:
            noise = self._resolved.noise(Counting)
            counts, max_norm = self._sums.by_pair(contributed)
            released = release_counts(counts, declared, noise.with_norm(max_norm), run)
        else:
            noise = self._resolved.noise(Calibration)
            released = release_sums(*self._sums.by_key(contributed), declared, noise, run)
        if not declared.is_keyed:
            return released[None]
        found = KeyedReleases(released)
        if not released and self._resolved.terms.selection is not None:
            found.unreleased = run.spent_alone(noise)
        return found

    def warned(self) -> list[str]:
        """Return what is to be warned of, once all is read."""
        declared = self._declared
        unused = [unused_words(declared, self._opened, argument) for argument in sorted(self._unused.arguments)]
        return [*self._warned, *unused, *[negative_words(declared.weight)] * self._sums.drops_negative]


def release_sums(
    sums: dict[Any, SketchAccumulator],
    lost: ExactLost | None,
    declared: ReleaseSpec,
    calibration: DeclaredCalibration,
    run: Run,
) -> dict[Any, Released]:
    """Return the release of each key, or of the key `None`, of exact sums and of what the run lost."""
    per_key, name = declared.is_keyed, run.name() if declared.is_keyed else None
    waiting = [Sum(Place((key,) if per_key else ()), each, name, key) for key, each in sums.items()]
    released: dict[Any, Released] = {}
    noisy_lost = None if lost is None else run.draw_lost(lost.exact, calibration, lost.max_norm)
    for together, releases in run.release(run.chosen(calibration.choice, waiting), calibration, noisy_lost):
        released |= zip([each.output for each in together], cast(Any, releases), strict=True)
    return _in_order(released, declared)


def release_counts(
    counts: dict[bytes, int], declared: ReleaseSpec, counting: Counting, run: Run
) -> dict[Any, Released]:
    """Return the grouped counts of each key, or of the key `None`: those above the threshold after the noise."""
    per_key, name = declared.is_keyed, run.name()
    always = map(encode, declared.public_keys or ()) if per_key else [b""]
    rows: dict[bytes, list[tuple[bytes, int]]] = {key: [] for key in always}
    for pair, noisy in run.count(counting, [*counts.items()]):
        encoded, item = split_pair(pair, per_key=per_key)
        rows.setdefault(encoded, []).append((item, noisy))
    released: dict[Any, Released] = {}
    for encoded, each in rows.items():
        key = decode(encoded) if per_key else None
        if key is None or is_unicode(key):
            released[key] = run.gather(counting, each, Place((key,) if per_key else ()), name)
    return _in_order(released, declared)


def _in_order(released: dict[Any, Released], declared: ReleaseSpec) -> dict[Any, Released]:
    """Return releases by key: as they are listed, else by the bytes of the key; the order of records would show one."""
    if not declared.is_keyed:
        return released
    order = declared.public_keys or sorted(released, key=encode)
    return {key: released[key] for key in order if key in released}
