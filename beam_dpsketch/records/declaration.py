"""All that a caller declares of a private transform, checked together before there is a pipeline."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import Any

from beam_dpsketch import _validate
from beam_dpsketch.hashing.encodings import canonical, encode
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.key_selection import SelectionRule
from beam_dpsketch.privacy.terms import DeclaredTerms, Disclosure, ReleaseTerms
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.public import Keys, TimeRange, check_keys
from beam_dpsketch.records.selectors import Selector, Selectors, check_selector
from beam_dpsketch.records.units import PrivacyId, Unit, check_max_weight, check_unit_type

_DIGEST_VERSION, _DIGEST_BYTES = 1, 32


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What is released, of what, for whom, under which keys, in which windows."""

    spec: Any
    privacy: PrivacySpec
    unit: Unit
    item: Selector = None
    weight: Selector = None
    keys: Keys | None = None
    windows: TimeRange | None = None

    def __post_init__(self) -> None:
        _validate.instance(PrivacySpec, privacy=self.privacy)
        check_unit_type(self.unit)
        check_selector(item=self.item, weight=self.weight)
        if self.windows is not None:
            _validate.instance(TimeRange, windows=self.windows)
        self._check_keys()
        if self.weight is not None:
            check_max_weight(self.unit.bounds)

    def _check_keys(self) -> None:
        """Refuse keys that do not suit the unit or the windows."""
        check_keys(self.keys, self.unit, self.windows)

    @functools.cached_property
    def sketch_input(self) -> SketchInput:
        """The sketch, and how items and weights go into it."""
        return SketchInput(self.spec, self.unit.bounds)

    @functools.cached_property
    def selectors(self) -> Selectors:
        """What in an element is what."""
        key = None if self.keys is None else self.keys.field
        privacy_id = None if self.privacy_id is None else self.privacy_id.field
        return Selectors(item=self.item, weight=self.weight, privacy_id=privacy_id, key=key)

    @property
    def privacy_id(self) -> PrivacyId | None:
        """Whose records are bounded; `None` where single records are protected."""
        return self.unit if isinstance(self.unit, PrivacyId) else None

    @property
    def public_keys(self) -> tuple[Any, ...] | None:
        """The listed keys, if any."""
        return None if self.keys is None else self.keys.listed

    @property
    def selection(self) -> SelectionRule | None:
        """What chooses the keys; `None` if the data do not."""
        return None if self.keys is None else self.keys.rule(self.unit.bounds.max_keys or 1)

    @property
    def is_keyed(self) -> bool:
        """Whether there is a release for each key."""
        return self.keys is not None

    @property
    def has_partitions(self) -> bool:
        """Whether `max_partitions` of the bounds may be above 1."""
        return self.is_keyed

    @property
    def hides_keys_and_windows(self) -> bool:
        """Whether keys and windows show only where enough units bring them in."""
        return self.selection is not None

    def discloses(self, *, windows_are_public: bool) -> Disclosure:
        """Return what is published without noise."""
        if self.hides_keys_and_windows:
            return Disclosure.NONE  # a window shows only in the keys, or items, that are released
        windows = Disclosure.NONE if windows_are_public else Disclosure.WINDOWS
        found_keys = self.is_keyed and self.public_keys is None
        return windows | Disclosure.KEYS if found_keys else windows

    def check_max_partitions(self) -> None:
        """Refuse bounds for several partitions where there is one."""
        bounds = self.unit.bounds
        if not self.has_partitions and (bounds.max_partitions or 1) > 1:
            raise ValueError("bounds.max_partitions must be 1 without keys: there is one partition")

    def terms(self) -> DeclaredTerms:
        """Return the terms as far as they are known before the windows are; refuse settings that cannot work."""
        cells = len(self.public_keys) if self.public_keys else None if self.is_keyed else 1
        selection, privacy = self.selection, self.privacy
        if selection is not None:
            privacy = privacy.losing(selection.delta)
        if self.privacy_id is None:
            return ReleaseTerms(privacy, self.unit.bounds, output_cells=cells, selection=selection)
        unit = PrivacyUnit.PRIVACY_ID_IN_PERIOD if self.privacy_id.period_micros else PrivacyUnit.PRIVACY_ID
        if self.windows is not None and self.privacy_id.max_windows is None and not self.privacy_id.has_norm:
            unit = PrivacyUnit.PRIVACY_ID_IN_WINDOW
        return ReleaseTerms(
            privacy,
            self.unit.bounds,
            selection=selection,
            unit=unit,
            window_count=self.privacy_id.max_windows or 1,
            period_micros=self.privacy_id.period_micros,
            output_cells=cells,
        )

    def identify(self, terms: DeclaredTerms, windows: tuple[int, ...] = ()) -> bytes:
        """Return 32 bytes that say which transform it is, for randomness from a secret: a digest of all settings.

        Transforms have different ones where sketch, terms, keys, windows or the names of fields differ. Equal settings
        have one digest, in every process and under every version of Python. What a function reads has no name that
        lasts, so functions are not told apart.

        Args:
          terms: under which it releases.
          windows: the length of windows, and where they start, in microseconds, or those of a horizon; none for the
            global window.
        """
        fields = (_name(getattr(self.selectors, field.name)) for field in dataclasses.fields(self.selectors))
        declared = (
            _DIGEST_VERSION,
            self.spec,
            terms.without_budget(),
            (type(self.keys).__name__, tuple(sorted(map(encode, self.public_keys or ())))),
            tuple(fields),
            windows,
            () if self.windows is None else (self.windows.start_micros, self.windows.end_micros),
        )
        return hashlib.blake2b(canonical(declared), digest_size=_DIGEST_BYTES).digest()

    def display_data(self) -> dict[str, Any]:
        """Return the public settings; neither the seed nor a key of the hash."""
        spec, limit = self.spec, self.privacy_id
        windows = {} if self.windows is None else {"windows": str(self.windows)}
        if limit is not None and limit.max_windows is not None:
            windows["max_windows"] = str(limit.max_windows)
        if limit is not None and limit.period_micros:
            windows["period"] = f"{limit.period_micros / 1_000_000:g} s"
        return {
            "sketch": self.sketch_input.kind.name,
            "counters": spec.cells,
            **{name: getattr(spec, name) for name in ("depth", "width") if hasattr(spec, name)},
            "rho": float(self.privacy.rho),
            "relation": self.privacy.relation.name,
            **{name: str(value) for name, value in self.unit.bounds.as_dict().items()},
            **windows,
        }


def _name(selector: Selector) -> Any:
    """Return the name of a field, or that it is read by a function."""
    return selector if selector is None or isinstance(selector, str) else ("function",)
