"""Products of tables against all hash functions and all noise of small cases, and against spoilt rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from beam_dpsketch.answers.estimators.comparing import Hashing, ReleasedTable, inner_product, second_moment
from beam_dpsketch.answers.estimators.tree_levels import median_variance

F, G = np.array([5, -3, 2]), np.array([4, 1, -6])
WIDTH = 3
TOO_NOISY_FOR_HEAVY_CELLS = 1e4


def hashed(hashing: Hashing) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows of both items' weights under every hash function."""
    signs = itertools.product((-1, 1), repeat=len(F)) if hashing == "signs" else [(1,) * len(F)]
    for columns, sign in itertools.product(itertools.product(range(WIDTH), repeat=len(F)), list(signs)):
        yield tuple(np.bincount(columns, weights=each * np.array(sign), minlength=WIDTH) for each in (F, G))


def moments(hashing: Hashing) -> dict[str, np.ndarray]:
    """Estimates of one row, over every hash function; the variance of no noise is subtracted and added again."""
    found: dict[str, list[float]] = {"product": [], "square": [], "distance": []}
    for rows in hashed(hashing):
        first, second = (ReleasedTable.of(row[np.newaxis], TOO_NOISY_FOR_HEAVY_CELLS, hashing) for row in rows)
        correction = WIDTH * TOO_NOISY_FOR_HEAVY_CELLS
        found["product"].append(inner_product(first, second).value)
        found["square"].append(second_moment(first).value + correction)
        found["distance"].append(second_moment(first.minus(second)).value + 2 * correction)
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("hashing", ["signs", "columns"])
def test_a_row_is_unbiased_over_all_hash_functions(hashing: Hashing) -> None:
    means = {name: values.mean() for name, values in moments(hashing).items()}
    assert means == pytest.approx({"product": F @ G, "square": F @ F, "distance": (F - G) @ (F - G)})


def test_what_collisions_add_is_the_variance_over_all_hash_functions() -> None:
    found = {name: values.var() for name, values in moments("signs").items()}
    squares, fourths = F @ F, np.sum(F**4)
    apart = F - G
    assert found == pytest.approx(
        {
            "product": (squares * (G @ G) + (F @ G) ** 2 - 2 * np.sum(F**2 * G**2)) / WIDTH,
            "square": 2 * (squares**2 - fourths) / WIDTH,
            "distance": 2 * ((apart @ apart) ** 2 - np.sum(apart**4)) / WIDTH,
        }
    )


@pytest.mark.parametrize("hashing", ["exact", "signs", "columns"])
def test_a_row_is_unbiased_over_all_noise(hashing: Hashing) -> None:
    """Noise of -9 or 9 in each counter has a variance of 81."""
    row, other = np.array([[5.0, -3, 2]]), np.array([[4.0, 1, -6]])
    noises = [9 * np.array([each]) for each in itertools.product((-1, 1), repeat=WIDTH)]
    noisy = [
        (ReleasedTable.of(row + x, 81, hashing), ReleasedTable.of(other + y, 81, hashing))
        for x in noises
        for y in noises
    ]
    quiet = [ReleasedTable.of(each, 0.0, "exact") for each in (row, other)]
    if hashing == "columns":
        quiet = [ReleasedTable(each - each.mean(), 0.0, "columns") for each in (row, other)]
    assert all(not table.heavy.any() for tables in noisy for table in tables)
    assert np.mean([second_moment(first).value for first, _ in noisy]) == pytest.approx(second_moment(quiet[0]).value)
    products = np.array([inner_product(*tables).value for tables in noisy])
    assert products.mean() == pytest.approx(inner_product(*quiet).value)
    if hashing == "exact":  # signs of noise have no fourth cumulant that products see
        assert products.var() == pytest.approx(81 * (F @ F + G @ G) + 3 * 81**2)


def test_the_variance_of_exact_tables_is_that_of_normal_noise() -> None:
    first, second = (ReleasedTable.of(each[np.newaxis] * 100, 9.0, "exact") for each in (F, G))
    counted, other = (1e4 * (each @ each) - 3 * 9 for each in (F, G))
    assert second_moment(first).normal == pytest.approx(4 * 9 * counted + 2 * 3 * 9**2)
    assert inner_product(first, second).normal == pytest.approx(9 * (counted + other) + 3 * 9**2)
    assert (second_moment(first).rare, inner_product(first, second).rare) == (0, 0)


def test_the_variance_of_hashed_tables_is_that_of_noise_and_of_light_items() -> None:
    """Without heavy items, light cells hold noise and collisions: 2 w (F2 / w + s^2)^2, and as much of both sides."""
    random = np.random.default_rng(1)
    x, y = (ReleasedTable.of(random.normal(0, 5, (5, 10_000)), 9.0, "signs") for _ in range(2))
    assert second_moment(x).normal == pytest.approx(median_variance(5) * 2 * 10_000 * 25**2, rel=0.05)
    assert inner_product(x, y).normal == pytest.approx(median_variance(5) * 10_000 * 25**2, rel=0.05)
    assert (
        second_moment(x).rare
        == 0
        < second_moment(ReleasedTable(x.counters[:2] + 1000 * np.eye(2, 10_000), 9, "signs")).normal
    )


def test_heavy_items_err_by_what_light_cells_hold_and_collide_by_chance() -> None:
    """Two heavy items of 1,000 and 500 in each of two rows: 4 F2 v, and the chance that they share a cell."""
    random = np.random.default_rng(2)
    cells = random.normal(0, 5, (2, 10_000))
    cells[:, 0], cells[:, 1] = 1000, 500
    found = second_moment(ReleasedTable.of(cells, 9.0, "signs"))
    squares = 1000**2 + 500**2
    assert found.normal == pytest.approx((4 * squares * 25 + 2 * 10_000 * 25**2) / 2, rel=0.05)
    assert found.rare == pytest.approx(2 * (squares**2 - 1000**4 - 500**4) / 10_000 / 2, rel=0.05)
    assert found.interval(0.95)[2] - found.value > (found.rare / 0.05) ** 0.5


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6, 9])
def test_equal_rows_give_the_row_and_one_spoilt_row_of_three_or_more_changes_nothing(depth: int) -> None:
    row = np.array([100.0, -50, 20, 0, 0, 0, 0, 0, 1, -2])
    rows = np.array([np.random.default_rng(each).permutation(row) for each in range(depth)])
    assert second_moment(ReleasedTable(rows, 0.0, "signs")).value == pytest.approx(row @ row)
    rows[0, :2] += 1e6
    spoilt = second_moment(ReleasedTable(rows, 0.0, "signs")).value
    assert (spoilt == pytest.approx(row @ row, rel=0.1)) == (depth >= 3)


def test_rows_without_signs_are_centred_by_their_light_cells() -> None:
    cells = np.ones((2, 1000))
    cells[:, ::2], cells[:, 0] = 3, 1e6
    centred = ReleasedTable.of(cells, 1.0, "columns").counters
    assert centred[0, 1] == pytest.approx(1 - 1.999, abs=0.01)
    uneven = np.array([[0.0, 0, 0, 0], [0, 9, 9, 0], [0, 0, 0, 0]])  # a row whose cells are all heavy
    assert np.isfinite(ReleasedTable.of(uneven, 1e-6, "columns").counters).all()
    with pytest.raises(ValueError, match="width 1 contains only a total"):
        ReleasedTable.of(np.ones((5, 1)), 1.0, "columns")
