"""Rows of releases to rows of answers: `QueryReleases` of `rows`, and `QueryTimeline` for rows over time.

No annotation is text here, because Beam YAML reads the signatures for its pages and checks.
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
    PLACES,
    RELEASE,
    ROW,
    WINDOW_COLUMNS,
    block_type,
    columns_of,
    columns_of_answers,
    fields_of_window,
    places_in,
    row_type,
    to_release,
)
from beam_dpsketch.statement.release_id import timeline

_OVER = ("windows", "prefixes")
_Ask, _Domain, _Horizon = block_type(ASK_BLOCK), block_type(DOMAIN_BLOCK), block_type(HORIZON_BLOCK)


class QueryReleaseRows(RowTransform):
    """Ask releases one kind of question. Asking costs no privacy, however often.

    Rows of releases go in: what private transforms give without `ask`, or what ReadReleases reads. Rows of answers
    come out, with the key and the window of the release, if it has them.

    Args:
      ask: one kind of question, as {quantiles: [0.5, 0.95]} or {items: [Oslo, Bern]}.
      domain: the domain of the releases, as the private transform was given it. Leave it out for sketches without one.
      label: a name for the steps, where two transforms have equal settings and another language gives them one name.
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
        places = {name: known[name] for name in PLACES if name in known}
        columns = columns_of_answers(places, self._ask, self._domain)
        return (
            pcoll
            | f"Read {self.step}" >> beam.Map(_placed, [*places]).with_output_types(tuple[dict[str, Any], Any])
            | f"Ask {self.step}"
            >> beam.ParDo(AnswerRows(self._ask, [*columns], self._domain)).with_output_types(row_type(columns))
        )


class QueryTimeline(RowTransform):
    """Ask the rows of a horizon one kind of question about many windows. Asking costs no privacy, however often.

    Rows over time go in, on bounded input. Rows of answers come out, with the start and the end of what was asked.

    Args:
      ask: one kind of question, as {quantiles: [0.5, 0.95]}.
      horizon: as the private transform was given it.
      over: windows, for each window that is released so far; prefixes, for all that was until the end of each of
        them; or a list of ranges of time, as [{start: "2024-01-01", end: "2024-01-08"}], each made of whole windows.
      domain: the domain of the releases, as the private transform was given it. Leave it out for sketches without one.
      label: a name for the steps, where two transforms have equal settings and another language gives them one name.
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
                "input", "a timeline is made of all rows, so the input must be bounded: read them from files", "E813"
            )
        places = {**({"key": known["key"]} if "key" in known else {}), **WINDOW_COLUMNS}
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
    """Make the timeline of each run and key, and yield the answers about ranges of its windows."""

    def __init__(self, horizon: Horizon, ranges: list[tuple[int, int]], *, is_listed: bool) -> None:
        self._horizon, self._ranges, self._is_listed = horizon, ranges, is_listed

    def process(self, element: tuple[tuple[Any, bytes], Iterable[bytes]]) -> Iterator[tuple[dict[str, Any], Any]]:
        (key, _), rows = element
        timeline = SketchTimeline(map(TimelineRow.from_bytes, dict.fromkeys(rows)), self._horizon)
        for first, last in self._ranges:
            start, end = self._horizon.edges(first)[0], self._horizon.edges(last)[1]
            fields = {"key": key, **fields_of_window(start, end)}
            if last < timeline.available or self._is_listed:
                yield fields, timeline.between(first, last)


def check_releases(known: dict[str, Any]) -> None:
    """Refuse rows that hold no releases."""
    if RELEASE not in known:
        raise ConfigError(
            "input",
            "expected rows of releases, with a field release, as private transforms give them without ask; "
            f"got the fields {', '.join(known)}",
            "E813",
        )


def _placed(row: Any, names: list[str]) -> tuple[dict[str, Any], Any]:
    return places_in(row, names), to_release(row)


def _by_run(row: Any, names: list[str]) -> tuple[tuple[Any, bytes], bytes]:
    """Return a row over time by its key and its run."""
    released = to_release(row)
    if not released.is_row:
        raise ConfigError(
            "input", "expected rows over time, of a continual release; for other releases take QueryReleases", "E813"
        )
    key = row.key if "key" in names else None
    return (key, timeline(released.privacy.release_ids[0])), released.to_bytes()


def _read_ranges(over: Any, horizon: Horizon) -> list[tuple[int, int]]:
    """Return the first and the last window of each range that is asked about."""
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
        raise refusal(path, "start and end must be edges of windows of the horizon, start before end")
    return first, last
