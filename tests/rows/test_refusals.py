"""What cannot be is refused while the pipeline is built, with the path of the setting and how to repair it."""

from __future__ import annotations

import inspect
from typing import Any

import apache_beam as beam
import pytest

from beam_dpsketch import rows
from tests.helpers.plain_rows import DOMAINS, KEYED, PRIVACY, UNIT, WINDOWS, seen, visits

COUNT: dict[str, Any] = {"item": "city", "privacy": PRIVACY, "privacy_unit": UNIT}
DELAYS: dict[str, Any] = {**COUNT, "item": "delay", "domain": DOMAINS["delay"]}
HORIZON = {"start": 0, "window_size": "1h", "windows": 2}
UNCOUNTED = {**COUNT, "privacy": {"rho": 3, "summary_counts": "none"}}
VOTES = {"privacy_id": "person", "norm": {"max_norm": 3, "max_keys": 2}}
GROUPED = {**COUNT, "domain": DOMAINS["delay"], "item": "delay", "k": 2, "method": {"threshold": {"delta": 1e-8}}}
LARGE = {**DELAYS, "domain": {"type": "integer", "low": 0, "high": (1 << 64) - 1}}
OVER_TIME = {**COUNT, "horizon": HORIZON, "privacy_unit": {**UNIT, "max_windows": 2}}
TOTAL = {"ask": {"total_weight": True}, "horizon": HORIZON}
QUERY, TIMELINE = rows.QueryReleases, rows.QueryTimeline
FREQUENCIES, QUANTILES, TOP_K = rows.PrivateFrequencies, rows.PrivateQuantiles, rows.PrivateTopK
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (FREQUENCIES, {**COUNT, "error_handling": {"output": "errors"}}, "error_handling: is not supported for private"),
    (QUERY, {"ask": {"total_weight": True}, "error_handling": {"output": "e"}}, "error_handling: "),
    (FREQUENCIES, {**COUNT, "listd_items": [1]}, "listd_items: unknown setting. Did you mean 'listed_items'?"),
    (FREQUENCIES, {**COUNT, "items": [1]}, "items: unknown setting. Did you mean 'listed_items'?"),
    (FREQUENCIES, {"item": "city", "privacy": PRIVACY, "unit": UNIT}, "unit: unknown .* Did you mean 'privacy_unit'?"),
    (QUERY, {"aks": 1, "ask": {"total_weight": True}}, "aks: unknown setting. Did you mean 'ask'?"),
    (rows.ReadReleases, {"path": "x", "keys": "text"}, "keys: unknown setting. Did you mean 'key'?"),
    (rows.ReadReleases, {"path": "x", "key": "float"}, "key: expected one of text, integer, bytes"),
    (rows.ReadReleases, {"path": ""}, "path: expected text"),
    (rows.WriteReleases, {"path": "x", "overwrite": "maybe"}, "overwrite: expected true or false"),
    (rows.ReadParquetBatches, {"path": "x", "columns": []}, "columns: expected a list of field names"),
    (rows.ReadParquetBatches, {"path": "x", "columns": [3]}, "columns: expected text"),
    (FREQUENCIES, {**COUNT, "encoding": "hex"}, "encoding: expected one of bytes, base64"),
    (FREQUENCIES, {**COUNT, "label": 3}, "label: expected text"),
    (FREQUENCIES, {**COUNT, "ask": {"quantiles": [0.5]}}, "ask.quantiles: requires an ordered domain"),
    (FREQUENCIES, {**COUNT, "ask": {}}, "ask: set a single question"),
    (FREQUENCIES, {**COUNT, "ask": {"items": ["a"], "total_weight": True}}, "ask: items and total_weight cannot be"),
    (FREQUENCIES, {**COUNT, "ask": "no"}, "ask: expected a block"),
    (FREQUENCIES, {**UNCOUNTED, "ask": {"total_weight": True}}, "ask.total_weight: requires the summary count weight"),
    (FREQUENCIES, {**UNCOUNTED, "ask": {"privacy_units": True}}, "ask.privacy_units: requires the summary count units"),
    (QUANTILES, {**DELAYS, "ask": {"quantiles": [2]}}, r"ask.quantiles\[0\]: must be from 0 to 1"),
    (QUANTILES, {**DELAYS, "ask": {"ranks": [[]]}}, r"ask.ranks\[0\]: expected a whole number"),
    (TOP_K, {**GROUPED, "privacy_unit": VOTES, "ask": {"ranks": [1]}}, "ask.ranks: is not supported for thresholded"),
    (rows.PrivateContinualFrequencies, {**OVER_TIME, "ask": 1}, "ask: unknown setting"),
    (rows.PrivateContinualFrequencies, COUNT, "horizon: is required: the windows"),
    (rows.PrivateContinualFrequencies, {**COUNT, "horizon": {"start": 0}}, "horizon.window_size: is missing"),
    (TIMELINE, {**TOTAL, "over": "days"}, "over: expected windows or prefixes"),
    (TIMELINE, {**TOTAL, "over": [[0, 1800]]}, r"over\[0\]: start and end must be window boundaries"),
    (TIMELINE, {**TOTAL, "over": [[3600, 10800]]}, r"over\[0\]: start and end must be window boundaries"),
    (FREQUENCIES, {**COUNT, "idempotent_noise": {"environment": "S"}}, "idempotent_noise.release_id: is missing"),
    (FREQUENCIES, {**COUNT, "expect": {"keys": 3}}, "expect.rows: is missing"),
    (FREQUENCIES, {**COUNT, "expect": {"rows": 0}}, "expect.rows: must be between 1 and"),
    (FREQUENCIES, {**COUNT, "idempotent_noise": {"release_id": "r"}}, "idempotent_noise: must be the place of the"),
]  # fmt: skip
"""A transform, its settings, and how the message begins."""


@pytest.mark.parametrize(("transform", "settings", "words"), WRONG, ids=range(len(WRONG)))
def test_wrong_settings_are_refused_when_they_are_given(transform: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}") as caught:
        transform(**settings)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("private", "words"),
    [
        (FREQUENCIES(**{**COUNT, "ask": {"top_k": 3}}), "ask.top_k: requires candidates"),
        (FREQUENCIES(**{**COUNT, "ask": {"items": ["a", 3]}}), "ask.items: must have values of a single type"),
        (FREQUENCIES(**{**COUNT, "item": "town"}), "item='town' is not a field"),
        (
            FREQUENCIES(**{**COUNT, "privacy_unit": KEYED, "keys": {"public": ["a", 3], "field": "city"}}),
            "keys.public: must have values of a single type",
        ),
        (
            FREQUENCIES(**{**COUNT, "privacy_unit": KEYED, "keys": {"assume_public": True, "field": "km"}}),
            "keys.field: keys must be text",
        ),
        (
            QUANTILES(**LARGE, ask={"ranks": [1]}),
            r"domain.high: must be below 2\*\*63",
        ),
        (QUERY({"items": ["Oslo"]}), "input: expected rows with a field named release"),
        (TIMELINE({"items": ["Oslo"]}, HORIZON), "input: expected rows with a field named release"),
        (rows.WriteReleases("out/x"), "input: expected rows with a field named release"),
    ],
    ids=range(9),
)  # fmt: skip
def test_what_does_not_go_with_the_input_is_refused_when_the_pipeline_is_built(private: Any, words: str) -> None:
    pipeline = beam.Pipeline("FnApiRunner")
    with pytest.raises((TypeError, ValueError), match=words):
        visits(pipeline) | private


@pytest.mark.slow
def test_a_wrong_domain_and_rows_over_time_are_refused() -> None:
    """A domain that is missing would leave out that items are cut; another one would misread positions."""
    released = {"delay": QUANTILES(**DELAYS), "city": FREQUENCIES(**COUNT)}
    over_time = rows.PrivateContinualFrequencies(
        **COUNT | {"privacy_unit": {**UNIT, "max_windows": 2}},
        horizon={**HORIZON, "start": WINDOWS["start"]},
        listed_items=["Oslo"],
    )
    for private, query, words in (
        (released["delay"], QUERY({"items": [1]}), "domain: is required for these releases"),
        (
            released["delay"],
            QUERY({"ranks": [1]}, {**DOMAINS["delay"], "high": 61}),
            "domain: must be the domain of the release",
        ),
        (released["city"], QUERY({"items": ["a"]}, DOMAINS["city"]), "domain: must be the domain of the release"),
        (
            over_time,
            QUERY({"items": ["a"]}),
            "input: timeline rows cannot answer questions one by one. Use QueryTimeline",
        ),
        (released["city"], TIMELINE({"items": ["a"]}, HORIZON), "input: expected timeline rows"),
    ):
        with pytest.raises(Exception, match=words):
            seen(lambda pipeline, private=private, query=query: {"": visits(pipeline) | private | query})


def test_labels_differ_with_settings() -> None:
    pipeline = beam.Pipeline("FnApiRunner")
    released = visits(pipeline) | QUANTILES(**DELAYS)
    for share in (0.1, 0.5):
        released | QUERY({"quantiles": [share]}, DOMAINS["delay"])
    released | QUERY({"quantiles": [0.5]}, DOMAINS["delay"], label="again")
    with pytest.raises(RuntimeError, match="already exists in the pipeline"):
        released | QUERY({"quantiles": [0.5]}, DOMAINS["delay"])


@pytest.mark.parametrize("name", rows.__all__)
def test_signatures_show_each_setting_with_its_words_and_a_type(name: str) -> None:
    """Beam YAML reads them; the catch-all for wrong names is not one."""
    transform = getattr(rows, name)
    shown = inspect.signature(transform.__init__).parameters
    for parameter in [*shown.values()][1:]:
        assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert not isinstance(parameter.annotation, str)
        assert f"\n      {parameter.name}: " in transform.__doc__ or "\n" + f"  {parameter.name}: " in transform.__doc__
