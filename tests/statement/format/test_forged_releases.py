"""Releases that somebody forged, under a right digest: refused, or read and asked without any error but those we name.

A forgery follows the tables of fields. So what refuses it is a rule about values. Who forges may claim any loss: a
digest does not authenticate. But a file must not stop, fill or steer the program that reads it.
"""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import FactorizationSpec, FormatError, IntegerDomain, Released, TreeSpec
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.cli.stored import Stored, describe
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.statement import release_format
from beam_dpsketch.statement.accounting import add_up
from beam_dpsketch.statement.notes import KeyNote
from tests.helpers import by_hand, golden
from tests.helpers.forgery import Forger
from tests.helpers.stored import forged, plain_of

FAST, SLOW, ONE_OF = 20, 250, 60
CORPUS = {name: each.to_bytes() for name, each in {**golden.good(), **golden.rows()}.items()}
ASKED: list[Callable[[Any], object]] = [
    repr,
    lambda it: it._repr_html_(),
    lambda it: (it.privacy.text(), it.privacy.as_dict(), it.privacy._repr_html_(), it.privacy.shown_loss),
    lambda it: it.privacy.epsilon(0.01),
    lambda it: describe(Stored("file", "key", it)),
    lambda it: add_up([it.privacy, _elsewhere(it.privacy)]),
    lambda it: it.counters,
    lambda it: it.side,
    lambda it: it.promise,
    lambda it: it.estimate([1, 2]),
    lambda it: it.frequencies(["a", "b"]),
    lambda it: it.top_k(3),
    lambda it: it.top_k(3, candidates=["a", "b"]),
    lambda it: it.decode(["a", "b"]),
    lambda it: (it.total_weight(), it.privacy_units(), it.records()),
    lambda it: it.quantiles([0.0, 0.5, 1.0]),
    lambda it: it.rank([1]),
    lambda it: it.combine(_drawn_again(it)),
    lambda it: it.combine(_drawn_again(it), units_disjoint=True),
    lambda it: it.minus(_drawn_again(it)).top_k(3),
    lambda it: it.movers(_drawn_again(it), k=3),
    lambda it: it.distance(_drawn_again(it)),
    lambda it: [(repr(each), each.notes, each.to_bytes()) for each in it.parts.values()],
    lambda it: (it.count(), it.total(), it.mean()),
    lambda it: (it.variance(), it.std()),
]
NAMED_ERRORS = (ValueError, TypeError, AttributeError)
"""Of questions that a release does not answer, and of methods that its kind does not have."""


def _elsewhere(statement: PrivacyStatement) -> PrivacyStatement:
    """The statement of another run."""
    ids = tuple(bytes([each[0] ^ 1]) + each[1:] for each in statement.release_ids)
    return dataclasses.replace(statement, release_ids=ids)


def _drawn_again(it: Any) -> Any:
    return type(it)(it.spec, it._counters, _elsewhere(it.privacy), it._scale_bits)


def faults(forged: Iterable[bytes]) -> tuple[list[str], int]:
    """What goes wrong with forged releases, each once, and how many were read."""
    found, read = set(), 0
    for data in forged:
        for kind in (Released, TimelineRow):
            try:
                it = kind.from_bytes(data)
            except FormatError:
                continue
            read += 1
            if it.to_bytes() != data:
                found.add("written otherwise")
            for number, ask in enumerate(ASKED):
                try:
                    ask(it)
                except NAMED_ERRORS:
                    pass
                except Exception as error:
                    found.add(f"{number}: {error!r}")
    return sorted(found), read


@pytest.fixture(autouse=True)
def _warnings_are_faults() -> Iterable[None]:
    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("error")
        yield


def test_some_forgeries_are_refused_or_asked() -> None:
    chance, forger = random.Random(1), Forger([*CORPUS.values()])
    found, read = faults(forger.forge(chance) for _ in range(FAST))
    assert not found
    assert 0 < read < FAST


@pytest.mark.slow
def test_forgeries_are_refused_or_asked() -> None:
    chance, forger = random.Random(2), Forger([*CORPUS.values()])
    found, read = faults(forger.forge(chance) for _ in range(SLOW))
    assert not found
    assert SLOW / 10 < read < SLOW


@pytest.mark.slow
def test_fields_at_their_limits_are_refused_or_asked() -> None:
    chance, every = random.Random(3), Forger([*CORPUS.values()]).each_part_at_its_limits()
    found, read = faults(forged for forged in every if not chance.randrange(ONE_OF))
    assert not found
    assert read > 100


def with_statement(name: str, **changes: Any) -> bytes:
    """A golden release with other fields of its statement, which no constructor checked."""
    it = CORPUS[name]
    spec, counters, privacy, bits = release_format.unpack(it)
    return release_format.pack(spec, counters, unchecked(privacy, **changes), bits)


def unchecked(value: Any, **changes: Any) -> Any:
    """A value object with other fields, which its constructor did not see."""
    made = object.__new__(type(value))
    vars(made).update({**vars(value), **changes})
    return made


def chosen_keys(**changes: Any) -> bytes:
    """A release whose note about its keys has other fields."""
    note = release_format.unpack(CORPUS["count_min_chosen_keys"])[2].keys
    return with_statement("count_min_chosen_keys", keys=unchecked(note, **changes))


TOO_FINE = Fraction(1, 1 << 6000)


def nested_metrics() -> bytes:
    """Metrics in metrics."""
    plain = plain_of(CORPUS["metrics"])
    return forged(CORPUS["metrics"], {"spec.parts.0.spec": plain[0]})


FORGED: dict[str, Callable[[], bytes]] = {
    "metrics in metrics": nested_metrics,
    "noise of votes that no float holds": lambda: chosen_keys(sigma_squared=Fraction(1 << 8000)),
    "more keys than a vote has parts": lambda: chosen_keys(max_keys=1 << 20, grid=1),
    "a part of rho that no float holds": lambda: with_statement("count_min_norm_whole", norm_share=TOO_FINE),
    "a delta that no float holds": lambda: with_statement("count_min_chosen_keys", delta=TOO_FINE),
}


@pytest.mark.parametrize("name", FORGED)
def test_numbers_beyond_floats_are_refused_or_shown(name: str) -> None:
    assert not faults([FORGED[name]()])[0]


def test_notes_without_limits_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyNote, "__post_init__", lambda note: None)
    assert "OverflowError" in str(faults([FORGED["noise of votes that no float holds"]()])[0])


def test_a_delta_that_no_float_holds_is_not_shown_as_0() -> None:
    shown = Released.from_bytes(FORGED["a delta that no float holds"]()).privacy.text()
    assert "delta = 4.94066e-324 (approximate zCDP)" in shown


def factor_of(size: int, counter: int) -> bytes:
    """Return the bytes of a release of `size` rows that all hold this counter."""
    spec = FactorizationSpec(IntegerDomain(1, size))
    return release_format.pack(spec, np.full(size, counter), by_hand.statement(), 0)


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("counter", [(1 << 63) - 1, -(1 << 63)])
def test_rows_at_their_limits_are_answered(size: int, counter: int) -> None:
    found, read = faults([factor_of(size, counter)])
    assert (found, read) == ([], 1)


@pytest.mark.slow
def test_rows_of_as_many_values_as_may_be_are_answered() -> None:
    it = Released.from_bytes(factor_of(1 << 20, (1 << 63) - 1))
    assert it.total_weight().estimate > 0
    assert 1 <= it.quantile(0.5, 0.01).lower <= 1 << 20
    assert len(it.top_k(3)) <= 3
    with pytest.raises(FormatError, match="2\\*\\*20"):
        Released.from_bytes(golden.bad()["bad_factor_too_wide"])


def test_a_row_over_time_of_a_factor_is_refused_or_shown() -> None:
    """No horizon makes one, but who forges may."""
    spec, counters, *_ = release_format.unpack(CORPUS["factor"])
    *_, privacy, bits = release_format.unpack(CORPUS["row_binned"])
    found, _ = faults([release_format.pack(spec, counters, privacy, bits)])
    assert not found


def tree_with(*levels: Level) -> TreeSpec:
    bits = sum(level.bits for level in levels)
    return TreeSpec(domain=IntegerDomain(0, (1 << bits) - 1), levels=levels)


def heavy(spec: TreeSpec) -> Any:
    """A release of a tree in which every counter is at its limit."""
    counters = np.full(spec.cells, (1 << 63) - 1)
    sigmas = (Fraction(1),) * len(spec.levels)
    statement = by_hand.statement(sigma_squared_per_level=sigmas)
    return Released.from_bytes(release_format.pack(spec, counters, statement, 0))


HALF = Fraction(1, 2)
COARSE, FINE = Level(4, "exact", 1, 16, HALF), Level(40, "count_sketch", 1, 4, HALF)


def test_a_file_that_declares_a_huge_level_is_refused() -> None:
    """An answer that looks at all children of a node would take terabytes."""
    for levels in ((COARSE, FINE), (dataclasses.replace(FINE, share=Fraction(1)),)):
        with pytest.raises(ValueError, match=r"Level \d must have at most 20 bits"):
            tree_with(*levels)


@pytest.mark.slow
def test_a_level_as_wide_as_may_be_is_answered() -> None:
    it = heavy(tree_with(COARSE, dataclasses.replace(FINE, bits=20)))
    assert len(it.top_k(3)) <= 3
    assert it.total_weight().estimate > 0
    assert len(it.movers(_drawn_again(it), k=3)) <= 3


def test_many_losses_without_a_common_denominator_are_added_up_in_short_numbers() -> None:
    """Exact, their sum would have as many digits as all denominators together, and spent would take hours."""
    chance = random.Random(3)
    losses = [1 + Fraction(1, (1 << 6900) + 2 * chance.randrange(1 << 6000) + 1) for _ in range(20)]
    (spent,) = add_up(by_hand.statement(rho=loss, release_ids=(chance.randbytes(48),)) for loss in losses)
    assert spent.rho.denominator <= 1 << 256
    assert 0 <= spent.rho - sum(losses) <= Fraction(len(losses), 1 << 256)
