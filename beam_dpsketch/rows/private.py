"""The private transforms with plain settings: rows in, rows with a schema out.

No annotation is text here, because Beam YAML reads the signatures for its pages and checks.
"""

from typing import Any, Optional

from beam_dpsketch.rows import blocks
from beam_dpsketch.rows.base import PrivateRows


class PrivateFrequencies(PrivateRows):
    """Count how often each item of a field occurs, with differential privacy.

    Without `ask`, each release comes out as a row, and QueryReleases asks it as often as you like.

    Args:
      item: the field that is counted.
      privacy: what the release may spend, as {epsilon: 2, delta: 1.0e-6}.
      unit: whom it protects, as {privacy_id: person, norm: {max_norm: 10}}.
      spec: the size of the sketch; without it the usual one.
      items: a public list of items that are counted exactly, in place of spec.
      weight: the field that says how much a record counts; without it each counts 1.
      keys: one release for each of these keys, as {public: [NL, BE], field: country}.
      windows: the windows to release, with data or without, as {start: "2024-01-01", end: "2024-02-01"}.
      ask: one kind of question, as {items: [Oslo, Bern]}; rows of answers come out.
      encoding: of rows of releases, bytes or base64.
      idempotent_noise: a name for the release and the place of a secret, for runners that repeat work.
      label: a name for the steps, where two transforms have equal settings and another language gives them one name.
    """

    def __init__(
        self,
        item: str,
        privacy: blocks.Privacy,
        unit: blocks.Unit,
        spec: Optional[blocks.Sketch] = None,
        items: Optional[list[Any]] = None,
        weight: Optional[str] = None,
        keys: Optional[blocks.Keys] = None,
        windows: Optional[blocks.Windows] = None,
        ask: Optional[blocks.Ask] = None,
        encoding: Optional[str] = None,
        idempotent_noise: Optional[blocks.IdempotentNoise] = None,
        label: Optional[str] = None,
        **others: Any,
    ) -> None:
        super().__init__("frequencies", _given(locals()), others)


class PrivateQuantiles(PrivateRows):
    """Release the distribution of an ordered field, with differential privacy: quantiles, ranks, ranges and more.

    Without `ask`, each release comes out as a row, and QueryReleases asks it as often as you like.

    Args:
      item: the field that is counted.
      domain: which values there can be, as {type: integer, low: -120, high: 1500}.
      privacy: what the release may spend, as {epsilon: 2, delta: 1.0e-6}.
      unit: whom it protects, as {privacy_id: person, norm: {max_norm: 10}}.
      tree: the layout of the counters; without it the usual one.
      weight: the field that says how much a record counts; without it each counts 1.
      keys: one release for each of these keys, as {public: [NL, BE], field: country}.
      windows: the windows to release, with data or without, as {start: "2024-01-01", end: "2024-02-01"}.
      ask: one kind of question, as {quantiles: [0.5, 0.95]}; rows of answers come out.
      encoding: of rows of releases, bytes or base64.
      idempotent_noise: a name for the release and the place of a secret, for runners that repeat work.
      label: a name for the steps, where two transforms have equal settings and another language gives them one name.
    """

    def __init__(
        self,
        item: str,
        domain: blocks.Domain,
        privacy: blocks.Privacy,
        unit: blocks.Unit,
        tree: Optional[blocks.Tree] = None,
        weight: Optional[str] = None,
        keys: Optional[blocks.Keys] = None,
        windows: Optional[blocks.Windows] = None,
        ask: Optional[blocks.Ask] = None,
        encoding: Optional[str] = None,
        idempotent_noise: Optional[blocks.IdempotentNoise] = None,
        label: Optional[str] = None,
        **others: Any,
    ) -> None:
        super().__init__("quantiles", _given(locals()), others)


class PrivateTopK(PrivateRows):
    """Find the most frequent values of a field, with differential privacy, without a list of candidates.

    One row for each value that is found comes out. No row comes out where nothing stands out: take `ask: releases` for
    a row that says so.

    Args:
      item: the field that is counted.
      domain: which values there can be, as {type: ipv4} or {type: text, max_bytes: 16}.
      k: how many values are wanted.
      privacy: what the release may spend, as {epsilon: 2, delta: 1.0e-6}.
      unit: whom it protects, as {privacy_id: person, norm: {max_norm: 10}}.
      tree: the layout of the counters; without it the usual one.
      method: grouped counts in place of a tree, as {groups: {delta: 1.0e-8}}.
      weight: the field that says how much a record counts; without it each counts 1.
      keys: one release for each of these keys, as {public: [NL, BE], field: country}.
      windows: the windows to release, with data or without, as {start: "2024-01-01", end: "2024-02-01"}.
      ask: another kind of question, or the word releases for one row for each release.
      encoding: of rows of releases, bytes or base64.
      idempotent_noise: a name for the release and the place of a secret, for runners that repeat work.
      label: a name for the steps, where two transforms have equal settings and another language gives them one name.
    """

    def __init__(
        self,
        item: str,
        domain: blocks.Domain,
        k: int,
        privacy: blocks.Privacy,
        unit: blocks.Unit,
        tree: Optional[blocks.Tree] = None,
        method: Optional[blocks.Method] = None,
        weight: Optional[str] = None,
        keys: Optional[blocks.Keys] = None,
        windows: Optional[blocks.Windows] = None,
        ask: Optional[Any] = None,
        encoding: Optional[str] = None,
        idempotent_noise: Optional[blocks.IdempotentNoise] = None,
        label: Optional[str] = None,
        **others: Any,
    ) -> None:
        super().__init__("top_k", _given(locals()), others)


class PrivateContinualFrequencies(PrivateRows):
    """Count how often each item occurs in every range of windows of a horizon, for the price of one release.

    One row comes out when a window closes. QueryTimeline asks all rows of a horizon together.

    Args:
      item: the field that is counted.
      horizon: the windows, as {start: "2024-01-01", window_size: 1d, windows: 30}.
      privacy: what all rows of the horizon may spend together.
      unit: whom they protect, as {privacy_id: person, records: {max_contributions_per_partition: 5}, max_windows: 7}.
      spec: the size of the sketch; without it the usual one.
      items: a public list of items that are counted exactly, in place of spec.
      weight: the field that says how much a record counts; without it each counts 1.
      keys: a timeline for each of these keys, as {public: [NL, BE], field: country}.
      encoding: of the releases, bytes or base64.
      idempotent_noise: a name for the release and the place of a secret, for runners that repeat work.
      label: a name for the steps, where two transforms have equal settings and another language gives them one name.
    """

    def __init__(
        self,
        item: str,
        horizon: blocks.Horizon,
        privacy: blocks.Privacy,
        unit: blocks.Unit,
        spec: Optional[blocks.Sketch] = None,
        items: Optional[list[Any]] = None,
        weight: Optional[str] = None,
        keys: Optional[blocks.Keys] = None,
        encoding: Optional[str] = None,
        idempotent_noise: Optional[blocks.IdempotentNoise] = None,
        label: Optional[str] = None,
        **others: Any,
    ) -> None:
        super().__init__("frequencies", _given(locals()), others)


class PrivateContinualQuantiles(PrivateRows):
    """Release the distribution of an ordered field in every range of windows of a horizon.

    One row comes out when a window closes. QueryTimeline asks all rows of a horizon together.

    Args:
      item: the field that is counted.
      domain: which values there can be, as {type: integer, low: -120, high: 1500}.
      horizon: the windows, as {start: "2024-01-01", window_size: 1d, windows: 30}.
      privacy: what all rows of the horizon may spend together.
      unit: whom they protect, as {privacy_id: person, records: {max_contributions_per_partition: 5}, max_windows: 7}.
      tree: the layout of the counters of one window; without it the usual one.
      weight: the field that says how much a record counts; without it each counts 1.
      keys: a timeline for each of these keys, as {public: [NL, BE], field: country}.
      encoding: of the releases, bytes or base64.
      idempotent_noise: a name for the release and the place of a secret, for runners that repeat work.
      label: a name for the steps, where two transforms have equal settings and another language gives them one name.
    """

    def __init__(
        self,
        item: str,
        domain: blocks.Domain,
        horizon: blocks.Horizon,
        privacy: blocks.Privacy,
        unit: blocks.Unit,
        tree: Optional[blocks.Tree] = None,
        weight: Optional[str] = None,
        keys: Optional[blocks.Keys] = None,
        encoding: Optional[str] = None,
        idempotent_noise: Optional[blocks.IdempotentNoise] = None,
        label: Optional[str] = None,
        **others: Any,
    ) -> None:
        super().__init__("quantiles", _given(locals()), others)


def _given(names: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments among the local names of a constructor."""
    return {name: value for name, value in names.items() if name not in ("self", "others", "__class__")}
