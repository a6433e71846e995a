"""One run of a release: all that is chosen and drawn in it, and the name of each of its parts.

Guarantee: each draw has a place in the run, and no two places share randomness. Under a secret, each draw is a
function of the secret, the place, all settings and all exact counts: whoever repeats the run gets the same bytes, in a
pipeline or without one. Without a secret, each call draws new noise and is another release.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.encodings import decode, encode, is_unicode
from beam_dpsketch.exact.declared.release_spec import ResolvedRelease
from beam_dpsketch.exact.reading.groups import Row
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.counting import Counting, draw_of
from beam_dpsketch.noise.keys import KeyChoice, find_chosen, with_noisy_votes
from beam_dpsketch.noise.noising import Part, PartColumns, draw_lost, release_parts
from beam_dpsketch.noise.norms import NORM_PART, choose_norm
from beam_dpsketch.privacy.loss.payment import IDEMPOTENT, STREAM, Bill
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.noisy import NoisyReleases
from beam_dpsketch.statement.release_id import (
    DRAW_BYTES,
    GLOBAL_END,
    GLOBAL_START,
    RUN_BYTES,
    key_part_names,
    part_name,
    part_of_run,
    timeline_of_run,
)
from beam_dpsketch.statement.stated import Stated

LOST_PART = encode(("lost",))
COUNTERS = 1 << 18
"""From how many on noise is drawn, because sums that wait for it take memory."""


class Place(NamedTuple):
    """Where in a run a release is.

    Attributes:
      key: its key alone; () without keys.
      start: when its window opens, in microseconds since 1970.
      end: when it closes.
      pane: which firing of the window it is.
    """

    key: tuple[Any, ...] = ()
    start: int = GLOBAL_START
    end: int = GLOBAL_END
    pane: int = 0

    def name(self, *which: Any) -> bytes:
        """Return the `part_name` of a part of the window."""
        return part_name(which, self.start, self.end)

    @property
    def of_key(self) -> tuple[Any, ...]:
        """What tells the key from others of the window."""
        return ("key", *self.key) if self.key else ()


WHOLE = Place()
"""The one release of the global window."""


class Sum(NamedTuple):
    """An exact sum that waits for its noise.

    Attributes:
      place: where its release is.
      accumulator: the sum.
      run: the name of the run, if it was drawn already. Under a secret it counts for nothing, because the secret names
        the run. Else `None` makes the release a run of its own.
      output: where its release goes; the caller's, who gets it back.
    """

    place: Place
    accumulator: SketchAccumulator
    run: bytes | None = None
    output: Any = None


class Run:
    """Chooses and draws for the releases of a transform.

    Args:
      secret: of the transform under its release id; `None` takes the entropy of the system.
      name: of the one run that this is, if it was drawn already.
    """

    def __init__(self, secret: KeyedRandomness | None = None, name: bytes | None = None) -> None:
        self._secret, self._name = secret, name

    @property
    def is_named(self) -> bool:
        """Whether its name was drawn already."""
        return self._name is not None

    @property
    def source(self) -> Randomness:
        """Where the noise comes from."""
        return Randomness.SYSTEM if self._secret is None else Randomness.KEYED

    def name(self, drawn: bytes | None = None) -> bytes:
        """Return the name of the run: made from the secret, else the one that was drawn before, or a new one.

        A secret, a release id and all settings name it, so a replay is the same run.
        """
        if self._secret is not None:
            return self._secret.random_bytes(b"run")(RUN_BYTES)
        return drawn or self._name or os.urandom(RUN_BYTES)

    def choose_norm(self, histogram: np.ndarray, spec: Any, terms: ReleaseTerms, *, scaled_units: Fraction) -> Fraction:
        """Return the norm that an exact histogram of lengths leads to, which may be published."""
        secret = None if self._secret is None else self._secret.derive(NORM_PART)
        return choose_norm(histogram, spec, terms, secret, scaled_units=scaled_units)

    def choose(self, choice: KeyChoice, votes: np.ndarray, places: Sequence[Place]) -> np.ndarray:
        """Return which keys are released, given the votes of each, as `find_chosen` does."""
        return find_chosen(choice, votes, self._secrets([(place, place.of_key) for place in places]))

    def with_first_votes(self, choice: KeyChoice, first: pa.Table, end: int, *, once: bool) -> pa.Table:
        """Return the votes of round one with noisy ones, as `with_noisy_votes` does."""
        return with_noisy_votes(choice, first, end, self._secret, once=once)

    def chosen(self, choice: KeyChoice | None, sums: list[Sum]) -> list[Sum]:
        """Return the sums of the keys that are released; of the others nothing is left."""
        if choice is None or not sums:
            return sums
        votes = np.stack([each.accumulator.votes for each in sums])
        kept = self.choose(choice, votes, [each.place for each in sums])
        return [each for each, is_kept in zip(sums, kept.tolist(), strict=True) if is_kept]

    def release_keys(
        self,
        sums: KeyedSums,
        calibration: Calibration,
        window: Place,
        run: bytes | None = None,
        lost: Sequence[int] | None = None,
    ) -> Iterator[tuple[list[Any], NoisyReleases]]:
        """Yield keys of a window that are released, as the data choose them or all, with their releases, by blocks."""
        keys, choice = [*map(decode, sums.keys.to_pylist())], calibration.choice
        kept = np.fromiter(map(is_unicode, keys), dtype=bool, count=len(keys))
        if choice is not None:
            places = [] if self._secret is None else [window._replace(key=(key,)) for key in keys]
            kept &= self.choose(choice, sums.votes, places)
        released = np.flatnonzero(kept)
        known = calibration.with_norm(sums.max_norm)
        told = _told(lost, known)
        size, name = max(1, COUNTERS // sums.sketch_input.spec.cells), run if self._secret is None else self.name()
        for number, block in enumerate(sums.ordered(released).blocks(size)):
            own = [keys[place] for place in released[number * size :][:size].tolist()]
            parts = PartColumns(
                block.sketch_input.kind,
                block.sketch_input.spec,
                block.sketch_input.scale_bits,
                block.counters,
                block.sketch_input.released_of(block.side),
                key_part_names(block.keys.to_pylist(), window.start, window.end),
                [name] * len(own),
            )
            secrets = self._secrets([(window, ("key", key)) for key in own])
            yield own, release_parts(parts, known, secrets, lost=told)

    def draw_lost(self, exact: np.ndarray, calibration: Calibration, max_norm: Fraction | None = None) -> list[int]:
        """Return the noisy histogram of what the run lost, and the noisy weight kept: what may be published.

        Args:
          exact: the same without noise, of all units of the run, int64.
          calibration: that of the releases, before the data have chosen a norm.
          max_norm: the norm, if the data chose it.
        """
        secret = None if self._secret is None else self._secret.derive(LOST_PART)
        return draw_lost(exact, calibration.with_norm(max_norm), secret)

    def release(
        self, sums: Iterable[Sum], calibration: Calibration, lost: Sequence[int] | None = None
    ) -> Iterator[tuple[list[Sum], NoisyReleases]]:
        """Yield sums that have the same terms, with their releases, each with noise of its own.

        `lost` is what `draw_lost` returned for the run; `None` if each release has its own histogram, or none.
        """
        groups: dict[Any, list[Sum]] = defaultdict(list)
        for each in sums:
            # A norm that the data chose is part of the terms, and may be another one in each window.
            terms = each.accumulator.max_norm, each.accumulator.row
            groups[terms].append(each)
            if len(groups[terms]) * each.accumulator.cells >= COUNTERS:
                yield self._draw(groups.pop(terms), calibration, lost)
        for group in groups.values():
            yield self._draw(group, calibration, lost)

    def _draw(
        self, sums: list[Sum], calibration: Calibration, lost: Sequence[int] | None
    ) -> tuple[list[Sum], NoisyReleases]:
        first = sums[0].accumulator
        known = calibration.with_norm(first.max_norm)
        sketches = SketchAccumulator.to_sketches([each.accumulator for each in sums])
        parts = [
            Part(sketch, each.accumulator.released_side, *self._part(each))
            for sketch, each in zip(sketches, sums, strict=True)
        ]
        which = () if first.row is None else ("row", first.row)
        secrets = self._secrets([(each.place, (*each.place.of_key, *which)) for each in sums])
        told = _told(lost, known)
        return sums, release_parts(parts, known, secrets, row=first.row, lost=told)

    def _part(self, each: Sum) -> tuple[bytes, bytes | None]:
        """Return which release it is, and the run that it is of, or the timeline."""
        place, row = each.place, each.accumulator.row
        run = each.run if self._secret is None else self.name()
        if row is None:
            return place.name(*place.of_key), run
        assert run is not None
        return place.name("row", row), timeline_of_run(run, *place.key)

    def count(
        self, counting: Counting, pairs: Sequence[tuple[bytes, Row]], window: Place = WHOLE
    ) -> Iterator[tuple[bytes, int]]:
        """Yield the pairs of key and item in a window that are released, with their noisy counts."""
        if pairs:
            secrets = self._secrets([(window, ("item", pair)) for pair, _ in pairs])
            noisy, released = counting.draw(np.array([row for _, row in pairs], dtype=np.int64), secrets)
            yield from ((pairs[place][0], int(noisy[place])) for place in np.flatnonzero(released).tolist())

    def gather(
        self, counting: Counting, rows: list[tuple[bytes, int]], place: Place, run: bytes | None = None
    ) -> NoisyReleases:
        """Return one release of the counts that `count` released for a key, of a run that may have its name already."""
        part, draw = place.name(*place.of_key), os.urandom(DRAW_BYTES)
        if self._secret is not None:
            draw = draw_of(rows, release_randomness(self._secret, part, place.pane))
        return counting.gather(rows, part_of_run(self.name(run), part), draw, self.source)

    def spent_alone(self, calibrated: Calibration | Counting, run: bytes | None = None) -> Stated:
        """Return the statement of a run with this noise that chose no key, or item, and so releases nothing."""
        terms, noise, note = calibrated.terms, calibrated.per_table, calibrated.note
        release_id = part_of_run(self.name(run), part_name(("nothing",))) + bytes(DRAW_BYTES)
        return Stated.of(terms, noise, randomness=self.source, release_id=release_id, keys=note)

    def _secrets(self, parts: Iterable[tuple[Place, tuple[Any, ...]]]) -> list[KeyedRandomness] | None:
        if (secret := self._secret) is None:
            return None
        return [release_randomness(secret, place.name(*which), place.pane) for place, which in parts]


def _told(lost: Sequence[int] | None, calibration: Calibration) -> LostNote | None:
    """Return the noisy histogram that `Run.draw_lost` drew; `None` if the releases have none of the run."""
    empty = calibration.empty_lost
    return None if lost is None or empty is None else empty.with_values(lost)


def release_alone(accumulator: SketchAccumulator, calibration: Calibration) -> NoisyReleases:
    """Return the release of an exact sum that is a run of its own; each call draws new noise."""
    return release_parts([Part(accumulator.to_sketch(), accumulator.released_side)], calibration)


def bill_of(
    resolved: ResolvedRelease, windows: tuple[int, ...], *, is_bounded: bool = True, is_idempotent: bool = False
) -> Bill | None:
    """Return the bill for all that one run releases, if an account of a ledger pays for it; else `None`.

    Args:
      resolved: the release under its terms.
      windows: see `ReleaseSpec.identify`.
      is_bounded: whether all records are there as it pays; others are those of a stream.
      is_idempotent: whether a secret and a release id name the run.
    """
    declared, terms = resolved.declared, resolved.terms
    names = [name for name in declared.selectors.names if name is not None]
    facts: dict[str, Any] = {"kind": declared.count.name, "fields": list(map(str, names))}
    facts |= {"settings": declared.display_data(), "digest": declared.identify(terms, windows).hex()}
    flags = {STREAM: not is_bounded, IDEMPOTENT: is_idempotent}
    return terms.bill(facts | {name: True for name, is_set in flags.items() if is_set})


def release_randomness(transform: KeyedRandomness, part: bytes, pane: int = 0) -> KeyedRandomness:
    """Return the randomness of one release: of a part, as `part_name` names it, and of the firing of its window."""
    return transform.derive(encode((part, pane)))
