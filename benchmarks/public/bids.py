"""Query 5 of Nexmark: the auctions with most bids in each window, where bidders are protected.

The generator has the parameters of Apache Beam's Nexmark suite, after NEXMark (Tucker, Tufte, Papadimos and Maier,
2008): 1 in 50 events is a person, 3 are auctions and 46 are bids. A bid goes to the hot auction with probability 1 -
1/2, and otherwise to one of the last 100 auctions or the next 10. It comes from the hot bidder with probability 1 -
1/`hot_bidders`, and otherwise from one of the last 1,000 people or the next 10. Each hundredth auction and person is
hot until the next one is. Windows have 100,000 events, which are 10 seconds at 10,000 events a second, and do not
overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    Answers,
    Ask,
    Contest,
    Entry,
    Question,
    mean_distance,
)

SEED, WINDOWS, EVENTS, TOP = 5, 2, 100_000, 10
HOT_AUCTIONS, BATCH, IN_FLIGHT, ACTIVE, LEAD = 2, 100, 100, 1_000, 10
COUNTS, MISSED = f"counts of the top {TOP}", f"share of the top {TOP} that is missed"
MOST, EACH, NORMS = (8, 24, 64), (1, 2), (4, 8)


def generated(hot_bidders: int, events: int, windows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Bidders and auctions of the bids in each window."""
    generator = np.random.default_rng(SEED)
    for window in range(windows):
        event = np.arange(window * events, (window + 1) * events)
        event = event[event % 50 >= 4]
        person, auction = event // 50, event // 50 * 3 + 2

        def recent(last: np.ndarray, many: int) -> np.ndarray:
            first = np.maximum(last - many, 0)
            return first + (generator.random(len(last)) * (last - first + 1 + LEAD)).astype(int)

        is_hot, from_hot = (generator.integers(0, ratio, len(event)) > 0 for ratio in (HOT_AUCTIONS, hot_bidders))
        yield (
            np.where(from_hot, person // BATCH * BATCH + 1, recent(person, ACTIVE)),
            np.where(is_hot, auction // BATCH * BATCH, recent(auction, IN_FLIGHT)),
        )


def contests(events: int = EVENTS, windows: int = WINDOWS) -> Iterator[Contest]:
    for hot_bidders, words in ((1, "no hot bidders"), (4, "hot bidders")):
        yield _contest(f"Nexmark query 5, {words}", list(generated(hot_bidders, events, windows)))


def _contest(data: str, windows: list[tuple[np.ndarray, np.ndarray]]) -> Contest:
    exact = [np.bincount(auctions) for _, auctions in windows]
    top = [np.argsort(-counts, kind="stable")[:TOP].tolist() for counts in exact]
    tables = [pa.table({"bidder": bidders, "auction": auctions}) for bidders, auctions in windows]
    rows = [list(zip(a.tolist(), b.tolist(), [0] * len(a), strict=True)) for a, b in windows]
    generator = np.random.default_rng(SEED)

    def answers(
        estimate: list[np.ndarray], margin: list[tuple[np.ndarray, np.ndarray]] | None = None
    ) -> Mapping[str, Answers]:
        counts = np.concatenate(estimate)
        released = Answers((~np.isnan(counts)).astype(float))
        sides = () if margin is None else (np.concatenate(each) for each in zip(*margin, strict=True))
        return {COUNTS: Answers(np.nan_to_num(counts), *sides), MISSED: released}

    def ours(unit: dict[str, Any]) -> Ask:
        settings = {"kind": "top_k", "k": TOP, "item": "auction", "method": "threshold"}
        settings["domain"] = {"type": "integer", "low": 0, "high": 1 << 30}
        settings |= {"privacy_unit": {"privacy_id": "bidder", **unit}, "privacy": {"epsilon": EPSILON, "delta": DELTA}}

        def ask() -> Mapping[str, Answers]:
            found: list[Any] = [
                release_frame(table, settings).interval(asked) for table, asked in zip(tables, top, strict=True)
            ]
            return answers([each.estimate for each in found], [(each.lower, each.upper) for each in found])

        return ask

    def pipeline_dp(keys: int, each: int) -> Ask:
        def ask() -> Mapping[str, Answers]:
            found = [peers.pipeline_dp(part, ["COUNT"], keys=keys, each=each) for part in rows]
            return answers(
                [_listed({k: m.count for k, m in one.items()}, a) for one, a in zip(found, top, strict=True)]
            )

        return ask

    def opendp(keys: int, each: int, law: str) -> Ask:
        def one(bidders: np.ndarray, auctions: np.ndarray) -> dict[int, int]:
            left = auctions[peers.bounded(bidders, auctions, keys, each, generator)]
            items, counts = np.unique(left, return_counts=True)
            return peers.thresholded(dict(zip(items.tolist(), counts.tolist(), strict=True)), keys, each, law)

        return lambda: answers([_listed(one(*window), a) for window, a in zip(windows, top, strict=True)])

    records = {
        f"records, {name}": ours({"records": {"max_records": each, "max_keys": keys}})
        for name, keys, each in peers.grid(MOST, EACH)
    }
    norms = {
        f"norm {norm}, {keys} keys": ours({"norm": {"max_norm": norm, "max_keys": keys}})
        for norm in NORMS
        for keys in MOST
    }
    auto = {f"auto norm, {keys} keys": ours({"norm": {"auto": {"max_keys": keys}}}) for keys in MOST}
    theirs = {name: pipeline_dp(keys, each) for name, keys, each in peers.grid(MOST, EACH)}
    by_hand = {
        f"{law}, {name}": opendp(keys, each, law)
        for law in ("Laplace", "Gaussian")
        for name, keys, each in peers.grid(MOST, EACH)
    }
    truth = np.concatenate([counts[asked] for counts, asked in zip(exact, top, strict=True)])
    return Contest(
        data,
        (Question(COUNTS, truth), Question(MISSED, np.ones(len(truth)), mean_distance)),
        (Entry(OURS, records | norms), Entry(OURS_AUTO, auto), Entry(PIPELINE_DP, theirs), Entry(OPENDP, by_hand)),
    )


def _listed(found: Mapping[int, float], asked: list[int]) -> np.ndarray:
    return np.array([found.get(each, np.nan) for each in asked], dtype=float)
