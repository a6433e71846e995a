"""`release_frame`: a release of a table that fits one machine, without Beam.

Guarantee: each release is rho-zCDP for the unit and the neighbouring relation that its privacy statement names, as
those of the private transforms are: bounds, exact sums and noise are the same functions. Noise is drawn once a call,
and each call is one more release.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.config.release import read_release
from beam_dpsketch.errors import ElementsWarning
from beam_dpsketch.frames.noise import nothing_released, release_counts, release_sums
from beam_dpsketch.frames.plan import check_columns, columns_of, resolve
from beam_dpsketch.frames.sums import ExactSums
from beam_dpsketch.frames.tables import open_table
from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.selectors import describe_argument
from beam_dpsketch.records.unused import Unused
from beam_dpsketch.statement.accounting import Unreleased


class KeyedReleases(dict[Any, ReleasedSketch]):
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
    >>> unit = {"privacy_id": "person", "records": {"max_contributions_per_partition": 1}}
    >>> settings = {"kind": "frequencies", "item": "city", "unit": unit, "privacy": {"rho": 1}}
    >>> release_frame(visits, settings).top_k(1, ["Oslo", "Rome"]).item
    ('Oslo',)
    """
    declared = settings if isinstance(settings, ReleaseSpec) else read_release(settings)
    released, unused = release_table(table, declared)
    for argument in unused:
        warnings.warn(
            f"{argument}: no row of the table has a value that can be used, so all were dropped; check the names and "
            "types of its columns",
            ElementsWarning,
            stacklevel=2,
        )
    return released


def release_table(table: Any, declared: ReleaseSpec, secret: KeyedRandomness | None = None) -> tuple[Any, list[str]]:
    """Return what `release_frame` does, and the arguments that dropped all of many rows, in words.

    Args:
      table: see `release_frame`.
      declared: what is released.
      secret: what sampling and noise are made from, as of a pipeline with idempotent noise, under a release id; `None`
        takes the entropy of the system.
    """
    resolved, selectors = resolve(declared), declared.selectors
    opened = open_table(table, columns_of(selectors).values())
    check_columns(declared, opened)
    resolved, unused = resolved.paying_for(object()), Unused(selectors)
    secret = None if secret is None else secret.derive(declared.identify(resolved.terms))
    sums = ExactSums(resolved, itertools.chain([opened.empty], opened.parts), unused, secret)
    if declared.count.by_item:
        released = release_counts(sums.by_pair(), resolved, secret)
    else:
        released = release_sums(sums.by_key(), resolved, secret)
    words = [describe_argument(name, getattr(selectors, name)) for name in sorted(unused.arguments)]
    if not declared.is_keyed:
        return released[None], words
    found = KeyedReleases(released)
    if not released and resolved.terms.selection is not None:
        found.unreleased = nothing_released(resolved, secret)
    return found, words
