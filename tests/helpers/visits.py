"""Visits with all that pipelines must cope with: in several forms of elements, and those that count, by place."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import PrivacyId, RecordBounds, TimeRange
from tests.helpers.norm_reference import Counted
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, seen_by_sink
from tests.helpers.side_releases import Sides
from tests.helpers.streams import stepped

END, FIXED, SLIDING = 240, 60, (120, 60)
KEYS = ["k0", "k1"]
Windows = int | tuple[int, int] | None


ALL = RecordBounds(1000, max_keys=3, max_weight=2, signed=True)
WEIGHT = {"weight": "n"}
DECLARED: dict[str, Any] = {"windows": TimeRange(0, END)}


class Visit(NamedTuple):
    user: str | None
    key: str | None
    item: str | None
    n: int


def visit(person: int, number: int) -> Visit:
    return Visit(f"user {person}", KEYS[number * person % 2], f"word {number * number % 13}", number % 5 - 1)


NOT_COUNTED = [
    *(
        Visit(*values)
        for values in [(None, "k0", "word 1", 2), ("user 1", "k0", None, 2), ("only zeros", "k1", "w", 0)]
    ),
    *(Visit(user, key, "word 2", 1) for user in ("user 1", "unlisted alone") for key in ("unlisted", None)),
]
CANCELLING = [Visit("cancels", key, item, n) for key in KEYS for item in ("word 0", "word 7") for n in (2, -2)]
VISITS = random.Random(3).sample(
    [
        *(
            (visit(person, number), number * 7 % END)
            for person in range(1, 12)
            for number in range(1 + 4 * (person - 1))
        ),
        *((each, 70 + place) for place, each in enumerate(NOT_COUNTED)),
        *((each, 10 + place) for place, each in enumerate(CANCELLING)),
    ],
    k=231 + len(NOT_COUNTED) + len(CANCELLING),
)


class Case(NamedTuple):
    """A transform, the windows before it, and the summary counts that records lead to, under the norm of the
    release."""

    make: Callable[[], Any]
    wanted: Callable[[list[Counted], Any], Sides]
    weighted: bool = True
    windows: Windows = None
    unit_of: Callable[[float], Any] = lambda start: None
    """What else than the id a unit is made of: where windows are bounded alone, the window."""


def by_id(bounds: Any, **limits: Any) -> PrivacyId:
    return PrivacyId("user", bounds, **limits)


def accepted(case: Case) -> list[Counted]:
    """The records that count, each in its windows, by the words of the documentation."""
    transform = case.make()
    keys, by_id = transform._declared.keys, transform._declared.privacy_id is not None
    listed = None if keys is None else keys.listed
    found = []
    for (user, key, item, n), time in VISITS:
        if (
            item is None
            or (by_id and user is None)
            or (keys is not None and (key is None or key not in (listed or [key])))
        ):
            continue
        for start in starts_of(time, case.windows):
            if start is None or transform._declared.windows is None or start >= 0:
                place = start, key if keys is not None else None
                found.append(Counted((user, case.unit_of(start or 0)), place, item, n if case.weighted else 1))
    return found


def starts_of(time: float, windows: Windows) -> list[float | None]:
    """The starts of the windows that a time is in."""
    if windows is None:
        return [None]
    size, step = (windows, windows) if isinstance(windows, int) else windows
    last = time // step * step
    return [start for start in (last - step * back for back in range(size // step)) if start > time - size]


def rows(visits: Iterable[Visit]) -> list[dict[str, Any]]:
    return [each._asdict() for each in visits]


def timed_batches(make: Callable[[pa.Table], Iterable[Any]]) -> list[tuple[Any, float]]:
    """Batches of the visits of each minute, several for each minute."""
    found: list[tuple[Any, float]] = []
    for minute in range(0, END, 60):
        of_minute = [each for each, time in VISITS if minute <= time < minute + 60]
        for part in (of_minute[::3], of_minute[1::3], of_minute[2::3]):
            schema = pa.schema([("user", pa.string()), ("key", pa.string()), ("item", pa.string()), ("n", pa.int64())])
            found += [(each, minute) for each in make(pa.Table.from_pylist(rows(part), schema=schema))]
    return found


FORMS: dict[str, list[tuple[Any, float]]] = {
    "dicts": [(each._asdict(), time) for each, time in VISITS],
    "objects": [
        ([beam.Row(**each._asdict()), each, each._asdict()][place % 3], time)
        for place, (each, time) in enumerate(VISITS)
    ],
    "batches": timed_batches(
        lambda table: [table.slice(0, 5), table.slice(5, 5).to_pandas(), *table.slice(10).to_batches(max_chunksize=4)]
    ),
}


def fused(pipeline: beam.Pipeline, timed: Any, label: str = "") -> beam.PCollection:
    created = pipeline | f"Create {label}" >> beam.Create(timed, reshuffle=False)
    return created | f"Stamp {label}" >> beam.MapTuple(TimestampedValue)


def across_a_stage(pipeline: beam.Pipeline, timed: Any, label: str = "") -> beam.PCollection:
    return fused(pipeline, timed, label) | f"Away {label}" >> beam.Reshuffle() | f"On {label}" >> beam.Map(_same)


def _same(element: Any) -> Any:
    return element


Placed = Callable[[beam.PCollection, str], beam.PCollection]
"""What is made of elements; the text is for the names of the steps."""


def in_every_form(placed: Placed) -> dict[str, list[Any]]:
    """What comes out of each form of elements, of one pipeline."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return [
            placed(fused(pipeline, timed, form), form)
            | f"Name {form}" >> beam.Map(lambda found, form: (form, found), form)
            for form, timed in FORMS.items()
        ] | beam.Flatten()

    seen = seen_by_sink(build)
    return {wanted: [each for form, each in seen if form == wanted] for wanted in FORMS}


SOURCES: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "across a stage": (across_a_stage, FN_API, ()),
    "another runner": (fused, BUNDLE_BASED, ()),
    "replayed": (fused, FN_API, ("--direct_runner_bundle_repeat=2",)),
}


def from_source(source: str, placed: Placed) -> list[Any]:
    """What comes out where elements come this way; of a replayed bundle perhaps several times."""
    read, runner, options = SOURCES[source]
    return seen_by_sink(lambda pipeline: placed(read(pipeline, FORMS["objects"]), ""), *options, runner=runner)


def from_stream(windows: Windows, placed: Placed) -> list[Any]:
    """What comes out of a stream with the visits, and one that comes too late."""
    step, late = windows[1] if isinstance(windows, tuple) else 60, (Visit("user 1", "k0", "word 1", 1), 7.0)
    stream = stepped(VISITS, step, END + 60, late=late, bundle=23)
    return seen_by_sink(lambda pipeline: placed(pipeline | stream, ""), "--streaming", runner=BUNDLE_BASED)
