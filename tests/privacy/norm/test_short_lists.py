"""What `AutoNorm` leaves open depends on public settings: the length of the list of items, and of that of keys."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from beam_dpsketch import (
    AutoNorm,
    ItemFrequencies,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    ReleaseSpec,
    SketchSpec,
    release_frame,
)
from beam_dpsketch.config import read_release

KEYS = ("a", "b", "c")
SHORT: dict[str, Any] = {"norm": "l1", "share": Fraction(1, 5)}


def taken(auto: AutoNorm, items: int, keys: Any = None, **changes: Any) -> Any:
    """Return the bounds of a release of a list, of all that may be given."""
    declared = ReleaseSpec(
        ItemFrequencies(changes.pop("count", ListedItems(range(items)))),
        PrivacySpec(**(changes or {"epsilon": 1, "delta": 1e-6})),
        PrivacyId("person", auto),
        item="item",
        keys=keys,
    )
    assert declared.privacy_unit.bounds == declared.terms.asked, "the terms have other bounds"
    return declared.privacy_unit.bounds


@pytest.mark.parametrize(
    ("items", "keys", "share"),
    [
        (1, None, 1),
        (2, None, Fraction(1, 2)),
        (14, None, Fraction(1, 14)),
        (64, None, Fraction(7, 100)),
        (21, KEYS, Fraction(7, 100)),
        (2, KEYS, Fraction(1, 6)),
    ],
)
def test_short_lists_take_order_1_and_pay_for_the_choice(items: int, keys: Any, share: Fraction | int) -> None:
    found = taken(AutoNorm(), items, keys and PublicKeys(keys, "key"))
    assert found == AutoNorm(**SHORT, item_share=Fraction(share))


@pytest.mark.parametrize(
    ("items", "keys", "count"), [(65, None, None), (22, PublicKeys(KEYS, "key"), None), (2, None, SketchSpec())]
)
def test_longer_lists_and_sketches_take_order_2(items: int, keys: Any, count: Any) -> None:
    found = taken(AutoNorm(), items, keys, **({} if count is None else {"count": count}))
    assert (found.norm, found.share, found.asked_share) == (None, Fraction(1, 20), Fraction(7, 100))


@pytest.mark.parametrize("given", [{"rho": 0.1}, {"epsilon": 1, "delta": 1e-6, "noise": "gaussian"}])
def test_gaussian_noise_takes_order_2(given: dict[str, Any]) -> None:
    """For one norm, its noise is the same for both orders, and L1 clips more."""
    assert taken(AutoNorm(), 3, **given) == AutoNorm()


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_what_is_given_is_taken(norm: str) -> None:
    given = AutoNorm(Fraction(1, 20), norm=norm, item_share=Fraction(1, 50))
    assert taken(given, 3) == given
    assert taken(AutoNorm(Fraction(1, 20), item_share=Fraction(1, 50)), 3) == AutoNorm(
        Fraction(1, 20), norm="l1", item_share=Fraction(1, 50)
    )
    assert taken(AutoNorm(norm=norm), 3).share == Fraction(1, 20)
    assert taken(AutoNorm(optimize_for="rarer_items"), 16).asked_share == Fraction(1, 16)


def test_keys_that_the_data_choose_are_refused_as_before() -> None:
    with pytest.raises(ValueError, match="max_keys"):
        taken(AutoNorm(), 3, KeySelection(1e-8, "key"))


def test_a_release_states_the_order_that_was_taken() -> None:
    """The part of the loss for the choice is that of short lists, in the statement and the plan too."""
    table = pa.table({"person": [f"p{number % 900}" for number in range(9000)], "item": [1, 2, 3] * 3000})
    declared = ReleaseSpec(
        ItemFrequencies(ListedItems([1, 2, 3])),
        PrivacySpec(epsilon=2, delta=1e-6),
        PrivacyId("person", AutoNorm()),
        item="item",
    )
    privacy = release_frame(table, declared).privacy
    assert isinstance(privacy.bounds, NormBound)
    assert privacy.bounds.norm == "l1"
    assert "20 % norm (" in privacy.details()
    assert "chosen from the data with 20 % of the loss" in str(declared.plan())


@pytest.mark.parametrize("norm", ["auto", {"auto": {}}, {"auto": {"max_per_item": 1}}])
def test_settings_leave_the_same_open(norm: Any) -> None:
    settings = {
        "kind": "frequencies",
        "listed_items": [1, 2, 3],
        "item": "item",
        "privacy_unit": {"privacy_id": "person", "norm": norm},
        "privacy": {"epsilon": 1, "delta": 1e-6},
    }
    bounds = read_release(settings).privacy_unit.bounds
    assert (bounds.norm, bounds.share, bounds.item_share) == ("l1", Fraction(1, 5), Fraction(1, 3))
