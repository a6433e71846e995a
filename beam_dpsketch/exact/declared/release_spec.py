"""Complete declaration of a release, validated before there is a pipeline or a table."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, TypeVar, cast

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import canonical, encode, name_of
from beam_dpsketch.errors import AllAtOnce, ArgumentError
from beam_dpsketch.exact.declared.count import (
    USUAL_QUANTILES,
    USUAL_TARGET_ERROR,
    Calibrated,
    Count,
    Guess,
    check_types,
)
from beam_dpsketch.exact.declared.public import Keys, TimeColumn, TimeRange
from beam_dpsketch.exact.declared.units import PrivacyId, Unit, check_max_weight, check_over_time, given_over_time
from beam_dpsketch.exact.domains.spelling import Spelling
from beam_dpsketch.exact.horizon import Horizon, WindowRows
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.reading.selectors import Selector, Selectors, column_of
from beam_dpsketch.exact.reading.unreadable import UNREADABLE
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import Bounds, PrivacyUnit
from beam_dpsketch.privacy.summary_counts import LostIn
from beam_dpsketch.privacy.terms import Disclosure, ReleaseTerms, RowTerms

_DIGEST_VERSION, _DIGEST_BYTES = 1, 32
_CHECKED = ("privacy", "privacy_unit", "item", "weight", "keys", "windows", "time", "csv")
Noise = TypeVar("Noise")


@dataclasses.dataclass(frozen=True)
class ReleaseSpec:
    """A release as declared by the arguments of a private transform, or by settings.

    Args:
      count: the kind of release: `ItemFrequencies`, `Quantiles`, `TopKSearch` or `ThresholdedCounts`.
      privacy: privacy loss of the release. Under a `Horizon`, the loss of all timeline rows together.
      privacy_unit: the privacy unit: `PrivacyId`, all records of an id, or `Record`, single records.
      item: the counted value: a field name, a callable, or `None` for the element itself.
      weight: whole number that a record counts, clamped to the unit's bounds. `None` is 1.
      keys: output keys with a release each. `None` for a single release.
      windows: a `TimeRange` with the released windows, or a `Horizon` for continual release. `None` for the windows
        with data.
      time: time column of a table, for `windows` without a pipeline.
      unreadable: "refuse" a table with many unreadable values, or "drop" these.
      csv: number and time spelling in CSV files.
      data_set: description of the data for the privacy statement, at most 500 characters.
      date: whether the privacy statement contains the day of the run. Replayable noise refuses it.

    >>> from beam_dpsketch import ItemFrequencies, Record, SketchSpec
    >>> ReleaseSpec(ItemFrequencies(SketchSpec()), PrivacySpec(rho=0.5), Record(), item="city").spec.kind
    'count_sketch'
    """

    count: Count
    privacy: PrivacySpec
    privacy_unit: Unit
    item: Selector = None
    weight: Selector = None
    keys: Keys | None = None
    windows: TimeRange | Horizon | None = None
    time: TimeColumn | None = None
    unreadable: str = "refuse"
    csv: Spelling | None = None
    data_set: str = ""
    date: bool = False

    def __post_init__(self) -> None:
        with AllAtOnce() as checks:
            checks.do(_validate.instance, Count, count=self.count)
            checks.do(_validate.one_of, UNREADABLE, unreadable=self.unreadable)
            checks.do(_validate.short_text, data_set=self.data_set)
            checks.do(_validate.instance, bool, date=self.date)
            checks.do(check_types, *(getattr(self, name) for name in _CHECKED))
        with AllAtOnce() as checks:
            if self.time is not None:
                checks.do(self.time.check, self.time_range, self.horizon, len(self.public_keys or [None]))
            checks.do(self.count.check, self.keys, self.privacy_unit, self.time_range)
            if self.weight is not None:
                checks.do(check_max_weight, self.privacy_unit.bounds)
            if self.horizon is not None:
                checks.do(check_over_time, self.privacy_unit, self.horizon.windows)
        object.__setattr__(self, "privacy_unit", self.count.completed(self.privacy_unit, self.privacy, self.keys))
        terms = self._open_terms(in_windows=self.time_range is not None)
        object.__setattr__(self, "count", self.count.suited(terms, over_time=self.horizon is not None))

    def check_replayable(self) -> None:
        """Refuse settings that a replay on another day would not publish again."""
        if self.date:
            words = "must not be set with replayable noise, because a replay must publish the same bytes. Remove it"
            raise ArgumentError("date", words, "E126")

    @property
    def horizon(self) -> Horizon | None:
        """The declared horizon of continual release, if any."""
        return self.windows if isinstance(self.windows, Horizon) else None

    @property
    def time_range(self) -> TimeRange | None:
        """The declared range of windows, if any."""
        return self.windows if isinstance(self.windows, TimeRange) else None

    @property
    def spec(self) -> Any:
        return self.count.spec

    @functools.cached_property
    def sketch_input(self) -> SketchInput:
        """The sketch with its items and weights."""
        return SketchInput(self.spec, self.count.limit(self.privacy_unit.bounds))

    def summed(self, terms: ReleaseTerms, rows: WindowRows | None = None) -> SketchInput:
        """Create the input of the exact sums under these terms, with summary counts and timeline rows."""
        aside: dict[str, Any] = {"counters": terms.counters, "lost": terms.lost, "selection": terms.votes}
        return dataclasses.replace(self.sketch_input, **aside, over_time=rows)

    @functools.cached_property
    def selectors(self) -> Selectors:
        """Selectors for all fields of an element."""
        homes = {"privacy_id": self.privacy_id, "key": self.keys}
        named = {name: home.field for name, home in homes.items() if home is not None}
        opaque = tuple(name for name, home in homes.items() if home is not None and home.opaque_bytes)
        columns = [] if self.keys is None else [*map(column_of, self.keys.columns)]
        every = columns[0] if columns and self.privacy_id is None else named.get("privacy_id")
        return Selectors(self.count.selected(self.item, every), self.weight, **named, opaque=opaque)

    @functools.cached_property
    def reader(self) -> RecordReader:
        per_key, by_item = self.is_keyed, self.count.by_item
        return RecordReader(self.selectors, per_key=per_key, public_keys=self.public_keys, by_item=by_item)

    @property
    def privacy_id(self) -> PrivacyId | None:
        """The bounded privacy id. `None` if single records are protected."""
        return self.privacy_unit if isinstance(self.privacy_unit, PrivacyId) else None

    @property
    def public_keys(self) -> tuple[Any, ...] | None:
        """The listed keys, if any."""
        return None if self.keys is None else self.keys.listed

    @property
    def is_keyed(self) -> bool:
        return self.keys is not None

    @property
    def hides_keys_and_windows(self) -> bool:
        """Whether keys and windows appear only after private selection."""
        return self.count.by_item or (self.keys is not None and self.keys.chosen_by_data)

    def discloses(self, *, windows_are_public: bool) -> Disclosure:
        """Determine the facts that are published without noise."""
        if self.hides_keys_and_windows:
            return Disclosure.NONE  # a window appears only in released keys or items
        windows = Disclosure.NONE if windows_are_public else Disclosure.WINDOWS
        return windows | Disclosure.KEYS if self.is_keyed and self.public_keys is None else windows

    @functools.cached_property
    def terms(self) -> ReleaseTerms:
        """Terms of the release before a pipeline's windows are known."""
        if self.horizon is None:
            return self.terms_of_each(in_windows=self.time_range is not None)
        alone = getattr(self.privacy_unit, "max_windows", 0) and (
            self.privacy_unit.bounds.has_norm or not self.hides_keys_and_windows
        )
        return self.row_terms(is_bounded=not alone)  # key selection over a horizon requires bounded input

    def terms_of_each(self, *, in_windows: bool, overlapping: int = 1, is_stream: bool = False) -> ReleaseTerms:
        """Compute the terms for each window's release. An element is in several windows if they overlap."""
        terms = self._open_terms(in_windows=in_windows, overlapping=overlapping, is_stream=is_stream)
        if overlapping > 1 or in_windows != (self.time_range is not None):  # a run has the noise in its plan
            planned = terms.selection if is_stream and self.terms.votes_twice else self.terms.selection
            return dataclasses.replace(terms, privacy=self.terms.privacy, selection=planned)
        return self.count.decide(terms) if self.horizon is None else terms

    def _open_terms(self, *, in_windows: bool, overlapping: int = 1, is_stream: bool = False) -> ReleaseTerms:
        """Compute the terms for each window before the kind chooses the noise."""
        selection = self._suited(self.count.select(self.keys, self.privacy_unit.bounds, self.privacy), not is_stream)
        privacy = self.privacy if selection is None else self.privacy.losing(selection.delta)
        return ReleaseTerms(
            self.count.summarized(privacy),
            cast(Bounds, self.privacy_unit.bounds),  # the terms distinguish bounds chosen from the data
            selection=selection,
            output_cells=len(self.public_keys) if self.public_keys else None if self.is_keyed else 1,
            lost_in=self.tells_lost_in(one_window=not in_windows),
            total_cells=self.spec.total_cells,
            key_names=() if self.keys is None else self.keys.column_names,
            **self.privacy_unit.promise(in_windows=in_windows, overlapping=overlapping, is_stream=is_stream),
        )

    def _suited(self, rule: Any, is_bounded: bool) -> Any:
        """Choose two rounds of votes if they are supported."""
        adds = self.privacy_unit.bounds.has_norm or self.horizon is not None or self.count.keys_alone
        return rule and rule.suited(self.privacy.relation, rho_adds=adds, is_bounded=is_bounded)

    def tells_lost_in(self, *, one_window: bool, is_bounded: bool = True) -> LostIn:
        """Choose the scope of the clipping histogram. On streams no step sees all keys, or data in dropped windows."""
        if (limit := self.privacy_id) is None or (one_window and not self.is_keyed):
            return LostIn.RELEASE
        in_stream = LostIn.NOWHERE if self.is_keyed or limit.max_windows else LostIn.RELEASE
        return LostIn.RUN if is_bounded else in_stream

    def row_terms(self, *, is_bounded: bool) -> RowTerms:
        """Compute the joint terms of all timeline rows. A norm covers all windows of bounded input, otherwise one."""
        assert self.horizon is not None
        terms = self.terms_of_each(in_windows=False, is_stream=not is_bounded)
        bounds, cells, selection = given_over_time(self.privacy_unit.bounds), terms.output_cells, terms.selection
        if bounds.has_norm and is_bounded and cells is not None:
            cells *= self.horizon.rows.windows
        if self.keys is not None and self.keys.chosen_by_data:
            windows = 1 if bounds.has_norm else terms.window_count
            selection = self._suited(self.keys.rule((bounds.max_keys or 1) * windows), is_bounded)
        return RowTerms(
            terms.privacy,
            bounds,
            privacy_unit=PrivacyUnit.RECORD_OVER_HORIZON
            if self.privacy_id is None
            else PrivacyUnit.PRIVACY_ID_OVER_HORIZON,
            **{name: getattr(terms, name) for name in ("window_count", "first_windows", "total_cells", "key_names")},
            output_cells=cells,
            disclosed=self.discloses(windows_are_public=True),
            selection=selection,
            mechanism=self.horizon.rows,
        )

    @functools.cached_property
    def resolved(self) -> ResolvedRelease:
        """The release under its known terms. Raises if the settings cannot work."""
        return ResolvedRelease(self, self.terms, self.count.calibrate(self.terms))

    def plan(
        self,
        n: int | None = None,
        *,
        target_error: Fraction | float = USUAL_TARGET_ERROR,
        typical: tuple[float, float] | None = None,
        quantiles: Iterable[float] = USUAL_QUANTILES,
    ) -> Any:
        """Plan the expected accuracy. See `beam_dpsketch.plan`, whose n is per release and key."""
        planned = self.resolved.plan(n, target_error=target_error, typical=typical, quantiles=quantiles)
        each = self.terms_of_each(in_windows=True)
        return planned if self.horizon is None else dataclasses.replace(planned, apart=self.count.decide(each))

    def identify(self, terms: ReleaseTerms, windows: tuple[int, ...] = ()) -> bytes:
        """Digest all settings to 32 bytes, for replayable noise. All callables have the same digest.

        The windows are `Windowing.edges`, or the horizon's.
        """
        declared = (
            _DIGEST_VERSION,
            self.spec,
            terms.for_noise(),
            (
                None if self.keys is None else name_of(type(self.keys)),
                tuple(sorted(map(encode, self.public_keys or ()))),
            ),
            self.selectors.names,
            windows,
            () if self.time_range is None else (self.time_range.start_micros, self.time_range.end_micros),
        )
        return hashlib.blake2b(canonical(declared), digest_size=_DIGEST_BYTES).digest()

    def display_data(self) -> dict[str, Any]:
        """List the public settings, without the seed and the hash key."""
        spec, limit, horizon, privacy = self.spec, self.privacy_id, self.horizon, self.terms.privacy
        return {
            "sketch": self.sketch_input.kind.name,
            "counters": spec.cells,
            **{name: getattr(spec, name) for name in ("depth", "width") if hasattr(spec, name)},
            privacy.currency: float(privacy.amount),
            **({} if self.terms.selection is None else {"delta": float(self.terms.delta)}),
            "relation": privacy.relation.name,
            **{name: str(value) for name, value in self.privacy_unit.bounds.as_dict().items() if value is not None},
            **({} if self.time_range is None else {"windows": str(self.time_range)}),
            **({} if limit is None else limit.display_data()),
            **({} if horizon is None else {"windows": horizon.windows, "mechanism": horizon.mechanism}),
            **self.count.display_data(),
        }


@dataclasses.dataclass(frozen=True)
class ResolvedRelease:
    """A declared release under its terms, with all calibration done before the data.

    Attributes:
      declared: the declaration.
      terms: terms per release, or for all timeline rows.
      calibrated: the noise and the rule for keys or items, from `Count.calibrate`.
    """

    declared: ReleaseSpec
    terms: ReleaseTerms
    calibrated: Calibrated

    def noise(self, kind: type[Noise]) -> Noise:
        """Get the calibration, which must have this type."""
        assert isinstance(self.calibrated, kind)
        return self.calibrated

    def plan(self, n: int | None, *, target_error: Any, typical: Any, quantiles: Iterable[float]) -> Any:
        """Plan the expected accuracy under these terms."""
        keys, guess = len(self.declared.public_keys or ()) or None, Guess.of(typical, quantiles)
        return self.declared.count.plan(self.calibrated, n, keys=keys, target_error=target_error, guess=guess)

    def under(self, terms: ReleaseTerms) -> ResolvedRelease:
        """Apply the terms for the actual windows. Raise if they cannot work."""
        if terms == (before := self.terms):
            return self
        unseen = {name: getattr(before, name) for name in ("disclosed", "uncounted", "overlapping", "first_windows")}
        is_as_noisy = dataclasses.replace(terms, **unseen) == before
        calibrated = self.calibrated.with_terms(terms) if is_as_noisy else self.declared.count.calibrate(terms)
        return ResolvedRelease(self.declared, terms, calibrated)

    def paid(self, terms: ReleaseTerms) -> ResolvedRelease:
        """Replace the terms by terms that differ only in their budget."""
        return ResolvedRelease(self.declared, terms, self.calibrated.with_terms(terms))
