"""Each wrong settings file has a message that begins with a path, and no other error comes out."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from beam_dpsketch import ArgumentError, ConfigError, PrivacySpec, config
from beam_dpsketch.config import (
    plain,
    read_keys,
    read_listed_items,
    read_privacy,
    read_privacy_unit,
    read_release,
    read_spec,
)
from beam_dpsketch.privacy.noise.laws import Noise
from tests.config.examples import KEY, PRIVACY, RELEASES, TABLES, UNIT, release
from tests.config.snapshots import FILES, SNAPSHOTS, snapshots


def test_messages_of_wrong_files_are_those_on_record() -> None:
    """`python -m tests.config.snapshots` writes them anew."""
    assert len(FILES) >= 30
    assert snapshots() == SNAPSHOTS.read_text(encoding="utf-8")


def test_each_message_on_record_begins_with_a_path() -> None:
    found = re.findall(r"^  (.*)$", SNAPSHOTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) == len(FILES)
    assert [words for words in found if not re.match(r"[a-z_.]+(\[\d+\])*: \S", words)] == []


@pytest.mark.parametrize("settings", RELEASES + TABLES, ids=range(len(RELEASES + TABLES)))
def test_every_name_is_checked_at_every_depth(settings: dict[str, Any]) -> None:
    """A misspelled name in any block is refused with its path; the next name is proposed."""

    def misspelled(value: Any, path: str) -> Any:
        for name, each in value.items():
            if name in ("type", "kind"):
                continue
            wrong = {**value, f"{name}x": each}
            yield wrong, f"{path}{name}x: "
            if isinstance(each, dict):
                for inner, place in misspelled(each, f"{path}{name}."):
                    yield {**value, name: inner}, place

    found = list(misspelled(settings, ""))
    assert len(found) >= 6
    for wrong, place in found:
        with pytest.raises(ConfigError) as caught:
            read_release(wrong)
        assert str(caught.value).startswith(place)
        assert "unknown setting. " in str(caught.value)


@pytest.mark.parametrize("name", ["kind", "item", "privacy", "privacy_unit", "domain", "k"])
def test_what_is_missing_is_named(name: str) -> None:
    settings = release("top_k", domain="ipv4", k=5)
    for left in ({key: each for key, each in settings.items() if key != name}, {**settings, name: None}):
        with pytest.raises(ConfigError, match=f"^{name}: is missing. Set "):
            read_release(left)


def test_the_path_of_the_caller_comes_first() -> None:
    with pytest.raises(ConfigError, match=r"^releases\[3\]\.privacy\.epsilon: must be finite and greater than 0"):
        read_release(release("frequencies", privacy={"epsilon": 0}), "releases[3]")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({**UNIT, "record": {}}, "privacy_unit: privacy_id and record cannot be combined. "),
        ({"privacy_id": True, "norm": "auto"}, "privacy_unit.privacy_id: expected text, .*boolean.*Put text in quotes"),
        (
            {"privacy_id": "p", "norm": {"max_norm": True}},
            "privacy_unit.norm.max_norm: expected a number, got the boolean",
        ),
        (
            {"privacy_id": "p", "norm": {"max_norm": 2, "max_per_item": 0}},
            "privacy_unit.norm.max_per_item: must be between",
        ),
        (
            {"privacy_id": "p", "norm": {"max_norm": 2, "signed": 1}},
            "privacy_unit.norm.signed: expected true or false, got 1",
        ),
        ({"privacy_id": "p", "norm": {"auto": {"share": 0.9}}}, "privacy_unit.norm.auto.share: must be at most 1/2"),
        ({"privacy_id": "p", "norm": {"auto": {}, "max_norm": 3}}, "privacy_unit.norm.max_norm: unknown setting"),
        ({"privacy_id": "p", "records": {}}, "privacy_unit.records.max_records: is missing"),
        (
            {"privacy_id": "p", "norm": "auto", "max_windows": 1.5},
            "privacy_unit.max_windows: expected a whole number, got 1.5",
        ),
        ({"privacy_id": "p", "norm": "auto", "period": -5}, "privacy_unit.period: must be greater than 0"),
        ([], "privacy_unit: set privacy_id"),
        (
            {"privacy_id": "p", "norm": 12},
            r"privacy_unit\.norm: expected a block .*, got 12\. Write norm: {max_norm: 12}",
        ),
        ({"privacy_id": "p", "records": "3"}, r"privacy_unit\.records: .*\. Write records: {max_records: 3}"),
        (
            {"max_norm": 12},
            r"privacy_unit\.max_norm: unknown setting\. Write privacy_unit: "
            r"{privacy_id: \.\.\., norm: {max_norm: 12}}",
        ),
        ({"privacy_id": "p", "max_keys": 2}, r"privacy_unit\.max_keys: unknown setting\. Known settings: "),
        (
            {"privacy_id": "p", "records": {"max_contributions_per_partition": 2}},
            r"privacy_unit\.records\..*Did you mean 'privacy_unit\.records\.max_records'\?",
        ),
    ],
    ids=str,
)
def test_wrong_units(settings: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^(?:{words})"):
        read_privacy_unit(settings)


_FLOAT, _LOG = {"type": "float", "low": 0, "high": 1}, {"type": "log", "low": 1, "high": 9}
_PERSON = {"privacy_id": "p"}
OLD_NAMES: list[tuple[dict[str, Any], str, str]] = [
    ({"unit": "record"}, "unit", "privacy_unit"),
    ({"items": ["Oslo"]}, "items", "listed_items"),
    ({"privacy": {"rho": 1, "side_counters": "none"}}, "privacy.side_counters", "summary_counts"),
    ({"privacy": {"rho": 1, "summary_counts": {"lost": 0.1}}}, "privacy.summary_counts.lost", "clipping"),
    ({"privacy_unit": {**_PERSON, "records": {"max_per_key": 3}}}, "privacy_unit.records.max_per_key", "max_records"),
    ({"privacy_unit": {**_PERSON, "norm": {"max_norm": 2, "order": 1}}}, "privacy_unit.norm.order", "norm"),
    *(
        ({"privacy_unit": {**_PERSON, "norm": {"auto": {old: 1}}}}, f"privacy_unit.norm.auto.{old}", new)
        for old, new in (("order", "norm"), ("spend", "share"), ("resource_limit", "max_distinct_items"))
    ),
    *(
        ({"privacy_unit": {**_PERSON, "norm": {"auto": {name: old}}}}, f"privacy_unit.norm.auto.{name}", new)
        for name, old, new in (("optimize_for", "largest", "top_items"), ("optimize_for", "typical", "rarer_items"))
    ),
    ({"kind": "quantiles", "domain": {**_FLOAT, "resolution": 0.1}}, "domain.resolution", "step"),
    ({"kind": "quantiles", "domain": {**_LOG, "relative": 0.1}}, "domain.relative", "relative_step"),
    ({"kind": "quantiles", "domain": "ipv4", "layout": "factor"}, "layout", "factorization"),
    ({"kind": "top_k", "domain": "ipv4", "k": 5, "method": {"groups": {}}}, "method.groups", "threshold"),
]
"""Settings with an old name in place of the new one, its path, and the new name."""


@pytest.mark.parametrize(("settings", "path", "new"), OLD_NAMES, ids=[path for _, path, _ in OLD_NAMES])
def test_an_old_name_is_refused_with_the_new_name(settings: dict[str, Any], path: str, new: str) -> None:
    """In a single line: the new name is not reported as missing too."""
    given = {name: each for name, each in release("frequencies").items() if name != new}
    with pytest.raises(ConfigError) as caught:
        read_release({**given, **settings})
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{path}: ")
    assert f". Did you mean '{new}'?" in line


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("epsilon", 1, "Write privacy: {epsilon: 1}"),
        ("every", "1d", "Write time: {every: ...}"),
        ("start", "2026-01-01", "Known settings: "),
        ("public_partitions", ["a"], "Did you mean 'keys.public'?"),
        ("max_partitions_contributed", 1, "Did you mean 'privacy_unit.records.max_keys'?"),
    ],
)
def test_a_setting_of_another_block_and_of_pipelinedp_is_found(name: str, value: Any, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_release({**release("frequencies"), name: value})
    assert str(caught.value).startswith(f"{name}: unknown setting. {hint}")


def test_a_new_name_is_not_proposed_where_it_is_no_setting() -> None:
    with pytest.raises(ConfigError, match=r"^resolution: unknown setting. Known settings: "):
        read_release({**release("frequencies"), "resolution": 1})


def test_what_may_be_secret_or_long_is_not_shown() -> None:
    """The key of a hash, items and keys are not in messages, nor in the errors that caused them."""
    secret = "never-shown"
    for read, settings in (
        (read_spec, {"item_hash": "blake2b", "item_key": secret}),
        (read_spec, {"item_hash": "blake2b", "item_key": KEY + "00"}),
        (read_keys, {"public": [secret, 1.5], "field": "f"}),
        (read_keys, {"public": [secret, "\ud800"], "field": "f"}),
        (read_listed_items, [secret, [secret, {secret: 1}]]),
        (read_listed_items, [secret, 1 << 64]),
        (read_privacy, {"epsilon": secret * 1000, "delta": 1e-6}),
    ):
        with pytest.raises(ConfigError) as caught:
            read(settings)
        words = str(caught.value).replace(KEY, secret)
        assert secret not in words
        assert len(words) < 500
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_names_that_cannot_be_printed_are_escaped() -> None:
    for name in ("\ud800", "\x1b[2J", "x" * 1000):
        with pytest.raises(ConfigError) as caught:
            read_privacy({name: 1})
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 200


def test_a_settings_object_of_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MAX_VALUES", 10_000)
    value: Any = ["x"] * 10
    for _ in range(9):
        value = [value] * 10
    with pytest.raises(ConfigError, match="more than 10000 values"):
        read_listed_items(value)


def test_a_cycle_is_refused() -> None:
    cycle: dict[str, Any] = {}
    cycle["privacy"] = cycle
    with pytest.raises(ConfigError, match=f"nested more than {plain.MAX_DEPTH_OF_BLOCKS} deep"):
        read_release(cycle)


def test_a_mistake_of_the_package_is_not_taken_for_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only errors about values become messages; anything else is a defect and stays visible."""

    def broken(**given: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("beam_dpsketch.config.release.PrivacySpec", broken)
    with pytest.raises(AssertionError):
        config.read_privacy(PRIVACY)


def test_shares_of_one_budget_have_one_noise() -> None:
    whole = {"epsilon": 1, "delta": 1e-6, "noise": "laplace"}
    assert read_privacy(whole).noise is Noise.LAPLACE
    assert read_privacy({"epsilon": 1, "share": "1/2"}).noise is Noise.LAPLACE
    with pytest.raises(ConfigError, match=r"privacy.noise: must not be laplace for a share of epsilon and delta.*E125"):
        read_privacy({**whole, "share": "1/2"})
    with pytest.raises(ArgumentError, match=r"noise must not be laplace for a share of epsilon and delta.*E125"):
        PrivacySpec(**whole).share(Fraction(1, 2))


def test_a_kind_of_metrics_alone_asks_for_no_item() -> None:
    """The suggested kind refuses an item."""
    with pytest.raises(ConfigError) as caught:
        read_release({"kind": "count", "privacy_unit": "record", "privacy": {"rho": 1}})
    assert str(caught.value).endswith("Did you mean 'metrics'? [dpsketch-E805]")
