"""Text and bytes are counted one by one in all doors: what pays for them, and what is refused before that."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from beam_dpsketch import (
    AutoNorm,
    BytesDomain,
    Horizon,
    IPv4Domain,
    KeySelection,
    Metric,
    Metrics,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    RecordBounds,
    ReleaseSpec,
    ReleaseTerms,
    TextDomain,
    ThresholdedCounts,
    Thresholding,
    TopKSearch,
    plan,
    release_frame,
    rows,
)
from beam_dpsketch.config import ConfigError, read_release
from beam_dpsketch.config.settings import AUTO_BLOCK, NORM_BLOCK
from beam_dpsketch.planning.kinds.thresholded_counts import USUAL_MAX_KEYS
from beam_dpsketch.transforms import PrivateTopK
from tests.cli.consoles import run

TEXT, PROMISE = TextDomain(5), PrivacySpec(epsilon=2, delta=1e-6)
SETTINGS: dict[str, Any] = {
    "kind": "top_k",
    "k": 3,
    "item": "word",
    "domain": {"type": "text", "max_bytes": 5},
    "privacy": {"epsilon": 2, "delta": 1e-6},
    "privacy_unit": {"privacy_id": "user", "norm": {"max_norm": 4}},
}
ARGUMENTS: dict[str, Any] = {"privacy": PROMISE, "privacy_unit": PrivacyId("user", NormBound(4)), "item": "word"}
TABLE = pa.table({"user": range(3000), "word": ["to"] * 2000 + ["tea"] * 999 + ["secret"]})
HORIZON = {"start": "2024-01-01", "window_size": "1d", "windows": 3}
NO_DELTA = "method{} must have a delta for item selection, because rho or a budget share pays .* Use {}"


def split() -> PrivacySpec:
    return PrivacyBudget(epsilon=2, delta=1e-6, keys_delta=1e-7).split(2)[0]


# By name: arguments, settings, and what Python and settings say: what is wrong, and the way out.
REFUSED: dict[str, tuple[Callable[[], dict[str, Any]], dict[str, Any], str, str]] = {
    "rho": (
        lambda: {"privacy": PrivacySpec(rho=1)},
        {"privacy": {"rho": 1}},
        NO_DELTA.format("", r"method=Thresholding\(delta=1e-8\)"),
        NO_DELTA.format(":", r"method: \{threshold: \{delta: 1.0e-8\}\}"),
    ),
    "a part of a budget": (
        lambda: {"privacy": split()},
        {"privacy": {"epsilon": 2, "delta": 1e-6, "share": "1/2"}},
        NO_DELTA.format("", r"method=Thresholding\(delta=1e-8\)"),
        NO_DELTA.format(":", r"method: \{threshold: \{delta: 1.0e-8\}\}"),
    ),
    "epsilon alone": (
        lambda: {"privacy": PrivacySpec(epsilon=2)},
        {"privacy": {"epsilon": 2}},
        r"delta is required with epsilon, .*\(number of people\): PrivacySpec\(epsilon=1, delta=1e-6\)",
        "privacy.delta: is required with epsilon, .*: epsilon: 1, delta: 1.0e-6",
    ),
    "chosen keys": (
        lambda: {"keys": KeySelection(1e-8, "k")},
        {"keys": {"select": {"delta": 1e-8}, "field": "k"}},
        "keys must be PublicKeys or AssumePublicKeys .*With AssumePublicKeys, only keys with a released item",
        "keys: must be keys.public or keys.assume_public: true .*, only keys with a released item",
    ),
    "deletions": (
        lambda: {"privacy_unit": PrivacyId("user", NormBound(4, signed=True))},
        {"privacy_unit": {"privacy_id": "user", "norm": {"max_norm": 4, "signed": True}}},
        "signed is not supported .*Use PrivateFrequencies, which counts deletions, and ask top_k with candidates",
        "privacy_unit.norm.signed: is not supported for .*Use kind: frequencies, which counts deletions",
    ),
    "rows over time": (
        lambda: {"windows": Horizon(0, 86_400, 3)},
        {"horizon": HORIZON},
        "windows must not be a horizon, .*Use PrivateFrequencies over time, and ask top_k with candidates",
        "horizon: must not be a horizon, .*Use kind: frequencies over time, and ask top_k with candidates",
    ),
    "records of any number of items": (
        lambda: {"privacy_unit": PrivacyId("user", RecordBounds(2))},
        {"privacy_unit": {"privacy_id": "user", "records": {"max_records": 2}}},
        r"max_keys is required for thresholded counts: .*Example: RecordBounds\(5, max_keys=2\)",
        "privacy_unit.records.max_keys: is required for thresholded .*Example: records: {max_records: 5, max_keys: 2}",
    ),
}
DOORS = ("transform", "frame", "settings", "rows", "command")


def through(door: str, case: str, folder: pathlib.Path) -> str:
    """What a door says of a case before it reads any data."""
    arguments, settings, *_ = REFUSED[case]
    if door == "command":
        (folder / "top.json").write_text(json.dumps(SETTINGS | settings))
        code, printed = run("plan", "--config", str(folder / "top.json"))
        assert code == 2
        return printed
    made = {
        "transform": lambda: PrivateTopK(TEXT, k=3, **(ARGUMENTS | arguments())),
        "frame": lambda: ReleaseSpec(ThresholdedCounts(TEXT, 3), **(ARGUMENTS | arguments())).resolved,
        "settings": lambda: read_release(SETTINGS | settings),
        "rows": lambda: rows.PrivateTopK(**{k: v for k, v in (SETTINGS | settings).items() if k != "kind"}),
    }[door]
    with pytest.raises((ValueError, TypeError)) as refused:
        made()
    return str(refused.value)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", REFUSED)
def test_each_door_refuses_with_the_way_out(door: str, case: str, tmp_path: pathlib.Path) -> None:
    _, _, python, settings = REFUSED[case]
    said = through(door, case, tmp_path)
    if (door, case) == ("rows", "rows over time"):
        assert "horizon" in said  # an argument that this transform does not have
    else:
        assert re.search(python if door in ("transform", "frame") else settings, said), said


OPTIONS = ["--kind", "top_k", "--k", "3", "--item", "word", "--privacy-id", "user", "--max-norm", "4"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--rho 1", r"Use --method .\{threshold: \{delta: 1.0e-8\}\}., or --epsilon and --delta instead of --rho"),
        ("--epsilon 2", "--delta is required with epsilon, .*: --epsilon 1 --delta 1e-6"),
        ("--epsilon 2 --delta 1e-6 --key k --select-keys 1e-8 --max-keys 9", "--public-keys or --assume-public-keys"),
        ("--epsilon 2 --delta 1e-6 --max-records 2", "--max-norm"),
    ],
)
def test_the_command_names_its_options(options: str, words: str) -> None:
    code, printed = run("plan", *OPTIONS, "--domain", "{type: text, max_bytes: 5}", *options.split())
    assert code == 2
    assert re.search(words, printed), printed


def test_summary_counts_are_refused_for_text() -> None:
    settings = {
        **SETTINGS,
        "privacy": {"rho": 1, "summary_counts": {"units": 0.1}},
        "method": {"threshold": {"delta": 1e-9}},
    }
    with pytest.raises(ConfigError, match=r"^privacy\.summary_counts: is not supported for thresholded counts"):
        read_release(settings)
    assert read_release({**settings, "privacy": {"rho": 1, "summary_counts": "none"}}).terms.share_left == 1


def test_a_plan_with_records_shows_the_smallest_share_of_an_item() -> None:
    plan = read_release(SETTINGS).plan(10_000)
    share = plan.as_dict()["likely_share"]
    assert f"at least {100 * share:.2g} % of 10,000 records is released with probability 99 %" in str(plan)
    assert read_release(SETTINGS).plan(20_000).as_dict()["likely_share"] == share / 2


def test_half_of_the_promised_delta_pays_for_the_threshold_in_all_doors() -> None:
    spec = ReleaseSpec(ThresholdedCounts(TEXT, 3), **ARGUMENTS)
    of_rows = rows.PrivateTopK(**{name: value for name, value in SETTINGS.items() if name != "kind"})
    declared = [PrivateTopK(TEXT, k=3, **ARGUMENTS)._declared, spec, read_release(SETTINGS), of_rows._declared]
    for each in declared:
        assert each.terms.delta == Fraction(1, 2_000_000)
        assert each.terms.counts_items
        assert each.terms.selection.max_items == USUAL_MAX_KEYS
        assert f"in at most {USUAL_MAX_KEYS} item counts" in str(each.plan())
    released = release_frame(TABLE, SETTINGS)
    assert released.items == ("to", "tea")
    assert released.privacy.delta == Fraction(1, 2_000_000)
    assert released.privacy.reported_epsilon <= 2
    assert released.privacy.reported_delta == 1e-6
    explicit = release_frame(TABLE, SETTINGS | {"method": {"threshold": {"delta": 1e-9}}, "privacy": {"rho": 1}})
    assert (explicit.privacy.rho, explicit.privacy.delta) == (1, Fraction(1, 10**9))


@pytest.mark.parametrize(
    ("bounds", "items"),
    [
        (NormBound(4), USUAL_MAX_KEYS),
        (AutoNorm(), USUAL_MAX_KEYS),
        (NormBound(4, max_keys=7), 7),
        (NormBound(4, max_distinct_items=20), 20),
        (NormBound(4, max_distinct_items=20, max_keys=30), 30),
    ],
)
def test_a_norm_that_says_no_number_of_items_has_the_usual_one(bounds: Any, items: int) -> None:
    for domain, method in (
        (TEXT, Thresholding()),
        (BytesDomain(4), Thresholding()),
        (IPv4Domain(), Thresholding(1e-8)),
    ):
        declared = ReleaseSpec(ThresholdedCounts(domain, 3, method), PROMISE, PrivacyId("user", bounds))
        assert declared.terms.counts_items
        assert declared.terms.selection.max_items == items
        assert declared.privacy_unit.bounds.max_keys == items


def test_the_pages_name_the_usual_number_of_items() -> None:
    assert AUTO_BLOCK.entries["max_keys"].usual == str(USUAL_MAX_KEYS)
    assert f", {USUAL_MAX_KEYS} if not given" in NORM_BLOCK.entries["max_keys"].words
    for documented in (Thresholding, NormBound):
        assert str(USUAL_MAX_KEYS) in (documented.__doc__ or "")


def test_numbers_are_searched_unless_groups_are_asked_for() -> None:
    numbers = SETTINGS | {"domain": {"type": "ipv4"}}
    assert isinstance(read_release(numbers).count, TopKSearch)
    assert isinstance(read_release(numbers | {"method": "threshold"}).count, ThresholdedCounts)
    assert isinstance(
        PrivateTopK(IPv4Domain(), PROMISE, k=3, privacy_unit=ARGUMENTS["privacy_unit"])._declared.count, TopKSearch
    )


METRIC = {"name": "words", "kind": "top_k", "item": "word", "k": 3, "domain": SETTINGS["domain"]}
OF_METRICS = {"kind": "metrics", "metrics": [METRIC], "privacy": {"rho": 1}, "privacy_unit": "record"}
ELSEWHERE: dict[str, tuple[Callable[[], Any], str]] = {
    "a search of text": (lambda: TopKSearch(TEXT, 3), "For text and bytes, use ThresholdedCounts"),  # type: ignore[arg-type]
    "a metric": (
        lambda: Metrics({"m": Metric(ThresholdedCounts(TEXT, 3))}),
        r"thresholded counts\. Use a separate PrivateTopK for text or bytes",
    ),
    "a metric of settings": (
        lambda: read_release(OF_METRICS),
        "metrics: must not contain metrics or thresholded counts. Use a separate kind: top_k for text",
    ),
    "a tree of text": (
        lambda: read_release(SETTINGS | {"tree": {"memory": 9000}}),
        "tree: is not supported for text and bytes, which have no order. Remove it",
    ),
    "a plan of text": (
        lambda: plan(TEXT, ReleaseTerms(PrivacySpec(rho=1))),  # type: ignore[arg-type]
        "For text, plan a ReleaseSpec of ThresholdedCounts",
    ),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_text_is_refused_where_trees_were_with_the_way_out(case: str) -> None:
    make, words = ELSEWHERE[case]
    with pytest.raises((ValueError, TypeError), match=words):
        make()
