"""Kinds of questions to a release: an entry each, for the command line, settings, rows and plots.

Guarantee: post-processing of a release, at no privacy loss for any number of questions.

To add a kind, add an entry to `QUESTIONS`, and its name to `Kind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from beam_dpsketch.answers.questions.entries import Answered, AnswerType, Drawing, QuestionKind, Takes
from beam_dpsketch.exact.domains import Domain
from beam_dpsketch.statement.tabular import Tabular

Kind: TypeAlias = Literal[
    "quantiles",
    "ranks",
    "ranges",
    "histogram",
    "cdf",
    "items",
    "top_k",
    "total_weight",
    "records",
    "privacy_units",
    "count",
    "total",
    "mean",
    "variance",
    "std",
]

_MANY = 20


def even_values(domain: Domain, parts: int, first: int = 0, last: int | None = None) -> list[Any]:
    """List the last value in each part of an evenly divided domain, or all values of a smaller domain.

    The intervals at these values are valid, because the choice does not depend on the release.
    """
    size = (domain.size - 1 if last is None else last) - first + 1
    parts = min(parts, size)
    ends = [first + size * part // parts - 1 for part in range(1, parts + 1)]
    return domain.values(np.array(ends, dtype=np.uint64))


def even_edges(domain: Domain, bins: int) -> list[Any]:
    """List the edges of bins over a domain with equally many values, except for the last bin.

    The last bin is shorter. With large bins it may have one value more, because `histogram` includes its end.
    """
    step = max(1, -(-(domain.size - 1) // bins))
    if step > _MANY or domain.scale is not None:
        return domain.values(np.array([*range(0, domain.size - 1, step), domain.size - 1], dtype=np.uint64))
    before, last = domain.values(np.array([max(0, domain.size - 2), domain.size - 1], dtype=np.uint64))
    return [*domain.values(np.arange(0, domain.size, step, dtype=np.uint64)), last + (last - before)]


def _listed(method: str) -> Callable[..., Answered]:
    def asked(released: Any, values: Sequence[Any], confidence: float, _: None) -> Answered:
        return _in_rows(getattr(released, method)(values, confidence))

    return asked


def _ranges(released: Any, pairs: Sequence[Any], confidence: float, _: None) -> Answered:
    return _in_rows(released.range_interval(*zip(*pairs, strict=True), confidence))


def _histogram(released: Any, edges: Any, confidence: float, _: None) -> Answered:
    edges = even_edges(released.spec.domain, edges) if isinstance(edges, int) else edges
    return _in_rows(released.histogram(edges, confidence))


def _cdf(released: Any, places: Any, confidence: float, _: None) -> Answered:
    values = even_values(released.spec.domain, places) if isinstance(places, int) else places
    return _in_rows(released.cdf_interval(values, confidence))


def _top_k(released: Any, k: int, confidence: float, candidates: Sequence[Any] | None) -> Answered:
    return _in_rows(released.top_k(k, candidates, confidence))


def _in_rows(answer: Tabular) -> Answered:
    return Answered(answer.to_rows(), answer)


_NUMBERS: dict[str, AnswerType] = {"estimate": float, "lower": float, "upper": float}
_OR_NONE: Any = float | None
_RATIOS: dict[str, AnswerType] = {**_NUMBERS, "estimate": _OR_NONE}


def _whole(
    method: str, words: str, axis: str | None, columns: dict[str, AnswerType] = _NUMBERS, **more: Any
) -> QuestionKind:
    def asked(released: Any, _: None, confidence: float, __: None) -> Answered:
        return _in_rows(getattr(released, method)(confidence))

    return QuestionKind(
        Takes.NOTHING,
        method,
        asked,
        lambda _: columns,
        option=method.replace("_", "-"),
        words=words,
        drawing=Drawing("lines", axis=axis),
        **more,
    )


QUESTIONS: Mapping[Kind, QuestionKind] = {
    "quantiles": QuestionKind(
        Takes.SHARES,
        "quantile",
        _listed("quantile"),
        lambda value: {"quantile": float, "estimate": value | None, "lower": value, "upper": value},
        option="quantile",
        words="the values at these quantile levels, 0 to 1",
        metavar="Q",
        drawing=Drawing("lines", "quantile {quantile:g}", "value"),
        needs_order=True,
    ),
    "ranks": QuestionKind(
        Takes.VALUES,
        "rank_interval",
        _listed("rank_interval"),
        lambda value: {"value": value, **_NUMBERS},
        option="rank",
        words="the weight at or below these values",
        metavar="VALUE",
        needs_order=True,
    ),
    "ranges": QuestionKind(
        Takes.RANGES,
        "range_interval",
        _ranges,
        lambda value: {"range_low": value, "range_high": value, **_NUMBERS},
        option="range",
        words="the weight from LOW to HIGH",
        metavar=("LOW", "HIGH"),
        needs_order=True,
    ),
    "histogram": QuestionKind(
        Takes.EDGES,
        "histogram",
        _histogram,
        lambda value: {"range_low": value, "range_high": value, **_NUMBERS},
        option="histogram",
        words="the weight in each bin between these edges",
        metavar="EDGE",
        drawing=Drawing("histogram"),
        needs_order=True,
    ),
    "cdf": QuestionKind(
        Takes.PARTS,
        "cdf_interval",
        _cdf,
        lambda value: {"value": value, **_NUMBERS},
        option="cdf",
        words="the share of the weight at or below N evenly spaced values (20)",
        metavar="N",
        drawing=Drawing("cdf"),
        limit=100_000,
        needs_order=True,
    ),
    "items": QuestionKind(
        Takes.VALUES,
        "interval",
        _listed("interval"),
        lambda item: {"item": item, **_NUMBERS},
        option="estimate",
        words="the weight of these items",
        metavar="ITEM",
        drawing=Drawing("lines", "{item}"),
        items_in="items",
    ),
    "top_k": QuestionKind(
        Takes.COUNT,
        "top_k",
        _top_k,
        lambda item: {"place": int, "item": item, **_NUMBERS},
        option="top",
        words="the K items with the largest estimates",
        metavar="K",
        drawing=Drawing("bars"),
        limit=1 << 31,
        items_in="candidates",
    ),
    "total_weight": _whole("total_weight", "the total weight in the release", None, summary_count="weight"),
    "records": _whole("records", "the number of records in the release", "records", summary_count="records"),
    "privacy_units": _whole(
        "privacy_units",
        "the number of privacy units, such as people, in the release",
        "privacy units",
        summary_count="units",
    ),
    "count": _whole("count", "the number of counted values", "records"),
    "total": _whole("total", "the sum of the numbers", "sum"),
    "mean": _whole("mean", "the mean of the numbers", "value", _RATIOS),
    "variance": _whole("variance", "the variance of the numbers", "variance", _RATIOS, setting="variance"),
    "std": _whole("std", "the standard deviation of the numbers", "value", _RATIOS, setting="variance"),
}
