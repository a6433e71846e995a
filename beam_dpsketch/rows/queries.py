"""Release rows to answer rows: `QueryReleases`, and `QueryTimeline` for timeline rows.

Annotations are not strings, because Beam YAML reads the signatures.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Optional

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from beam_dpsketch.answers.over_time import SketchTimeline, TimelineRow
from beam_dpsketch.config import read_domain, read_horizon, read_windows
from beam_dpsketch.config.asking import ASK_BLOCK, read_ask
from beam_dpsketch.config.paths import refusal
from beam_dpsketch.config.settings import DOMAIN_BLOCK, HORIZON_BLOCK
from beam_dpsketch.errors import ConfigError
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.rows.base import AnswerRows, RowTransform
from beam_dpsketch.rows.schema import (
    NOT_ONE_BY_ONE,
    RELEASE,
    ROW,
    WINDOW_COLUMNS,
    block_type,
    columns_of,
    columns_of_answers,
    fields_of_window,
    is_place,
    places_in,
    row_type,
    to_release,
)
from beam_dpsketch.statement.release_id import timeline
from beam_dpsketch.statement.showing import is_key_column

_OVER = ("windows", "prefixes")
_Ask, _Domain, _Horizon = block_type(ASK_BLOCK), block_type(DOMAIN_BLOCK), block_type(HORIZON_BLOCK)


class QueryReleaseRows(RowTransform):
    """Answer one question about each release, at no privacy loss, any number of times.

    The input is release rows from private transforms without `ask`, or from ReadReleases. Outputs answer rows, with the
    release's key and window, if any.

    Args:
      ask: one question, as {quantiles: [0.5, 0.95]} or {items: [Oslo, Bern]}.
      domain: the releases' domain, as in the private transform. Omit it for sketches without a domain.
      label: a name for the steps, if two transforms have equal settings and another language uses equal names for them.
    """

    def __init__(
        self,
        ask: _Ask,  # type: ignore[valid-type]
        domain: Optional[_Domain] = None,  # type: ignore[valid-type]
        label: Optional[str] = None,
    ) -> None:
        self._domain = None if domain is None else read_domain(domain)
        self._ask = read_ask(ask, "ask", self._domain)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        known = columns_of(pcoll)
        check_releases(known)
        if ROW in known:
            raise refusal("input", NOT_ONE_BY_ONE, "E813")
        places = {name: known[name] for name in known if is_place(name)}
        columns = columns_of_answers(places, self._ask, self._domain)
        return (
            pcoll
            | f"Read {self.step}" >> beam.Map(_placed, [*places]).with_output_types(tuple[dict[str, Any], Any])
            | f"Ask {self.step}"
            >> beam.ParDo(AnswerRows(self._ask, [*columns], self._domain)).with_output_types(row_type(columns))
        )


class QueryTimeline(RowTransform):
    """Answer one question about many windows in a horizon, at no privacy loss, any number of times.

    The input is timeline rows, as a bounded collection. Outputs answer rows, with the start and end of each range.

    Args:
      ask: one question, as {quantiles: [0.5, 0.95]}.
      horizon: the horizon, as in the private transform.
      over: windows, for each window released so far. prefixes, for all data until the end of each window. Or a list of
        time ranges that consist of whole windows, as [{start: "2024-01-01", end: "2024-01-08"}].
      domain: the releases' domain, as in the private transform. Omit it for sketches without a domain.
      label: a name for the steps, if two transforms have equal settings and another language uses equal names for them.
    """

    def __init__(
        self,
        ask: _Ask,  # type: ignore[valid-type]
        horizon: _Horizon,  # type: ignore[valid-type]
        over: Optional[Any] = None,
        domain: Optional[_Domain] = None,  # type: ignore[valid-type]
        label: Optional[str] = None,
    ) -> None:
        self._domain = None if domain is None else read_domain(domain)
        self._ask = read_ask(ask, "ask", self._domain)
        self._horizon = read_horizon(horizon)
        self._over = "windows" if over is None else over
        self._ranges = _read_ranges(self._over, self._horizon)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        known = columns_of(pcoll)
        check_releases(known)
        if not pcoll.is_bounded:
            raise refusal(
                "input", "must be bounded, because a timeline needs all rows. Read the rows from files", "E813"
            )
        places = {**{name: known[name] for name in known if is_key_column(name)}, **WINDOW_COLUMNS}
        columns = columns_of_answers(places, self._ask, self._domain)
        timelines = _Timelines(self._horizon, self._ranges, is_listed=self._over not in _OVER)
        return (
            pcoll
            | f"All {self.step}" >> beam.WindowInto(GlobalWindows())
            | f"Read {self.step}" >> beam.Map(_by_run, [*known]).with_output_types(tuple[tuple[Any, bytes], bytes])
            | f"Group {self.step}" >> beam.GroupByKey()
            | f"Timeline {self.step}" >> beam.ParDo(timelines).with_output_types(tuple[dict[str, Any], Any])
            | f"Ask {self.step}"
            >> beam.ParDo(AnswerRows(self._ask, [*columns], self._domain)).with_output_types(row_type(columns))
        )


class _Timelines(beam.DoFn):
    """Build the timeline for each run and key, and yield answers about window ranges."""

    def __init__(self, horizon: Horizon, ranges: list[tuple[int, int]], *, is_listed: bool) -> None:
        self._horizon, self._ranges, self._is_listed = horizon, ranges, is_listed

    def process(self, element: tuple[tuple[Any, bytes], Iterable[bytes]]) -> Iterator[tuple[dict[str, Any], Any]]:
        (key, _), rows = element
        timeline = SketchTimeline(map(TimelineRow.from_bytes, dict.fromkeys(rows)), self._horizon)
        for first, last in self._ranges:
            start, end = self._horizon.edges(first)[0], self._horizon.edges(last)[1]
            fields = {**dict(key), **fields_of_window(start, end)}
            if last < timeline.available or self._is_listed:
                yield fields, timeline.between(first, last)


def check_releases(known: dict[str, Any]) -> None:
    """Refuse rows without releases."""
    if RELEASE not in known:
        raise ConfigError(
            "input",
            "expected rows with a field named release, which private transforms output without ask, got the fields "
            f"{', '.join(known)}",
            "E813",
        )


def _placed(row: Any, names: list[str]) -> tuple[dict[str, Any], Any]:
    return places_in(row, names), to_release(row)


def _by_run(row: Any, names: list[str]) -> tuple[tuple[Any, bytes], bytes]:
    """Pair a timeline row with its key and run."""
    released = to_release(row)
    if not released.is_row:
        raise ConfigError("input", "expected timeline rows. For other releases, use QueryReleases", "E813")
    key = tuple((name, getattr(row, name)) for name in names if is_key_column(name))
    return (key, timeline(released.privacy.release_ids[0])), released.to_bytes()


def _read_ranges(over: Any, horizon: Horizon) -> list[tuple[int, int]]:
    """Convert ranges in settings to pairs of first and last window."""
    if over == "windows":
        return [(window, window) for window in range(horizon.windows)]
    if over == "prefixes":
        return [(0, window) for window in range(horizon.windows)]
    if not isinstance(over, (list, tuple)) or not over:
        raise refusal("over", f"expected {' or '.join(_OVER)}, or a list of ranges with start and end")
    return [_read_range(each, horizon, f"over[{place}]") for place, each in enumerate(over)]


def _read_range(settings: Any, horizon: Horizon, path: str) -> tuple[int, int]:
    times = read_windows(settings, path)
    first, last = horizon.index(times.start_micros), horizon.index(times.end_micros) - 1
    edges = (horizon.edges(first)[0], horizon.edges(last)[1])
    if not 0 <= first <= last < horizon.windows or edges != (times.start_micros, times.end_micros):
        raise refusal(path, "start and end must be window boundaries of the horizon, with start before end")
    return first, last
