"""Rows over time of raw sketches, released without Beam."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from beam_dpsketch import Horizon, PrivacySpec
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.noising import Part, release_parts
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.over_time.lengths import RowEncoder
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.terms import RowTerms
from beam_dpsketch.statement.release_id import part_name, timeline_of_run

KINDS = ("root", "tree")


def mechanism_of(kind: str, windows: int) -> RowMechanism:
    return BinnedRoot.over(windows) if kind == "root" else BinaryTree(windows)


def released_rows(
    leaves: Sequence[Any],
    horizon: Horizon,
    kind: str = "root",
    *,
    rho: float = 1.0,
    records: Sequence[int] | None = None,
    run: bytes | None = None,
) -> list[TimelineRow]:
    """Release the rows of the first windows of a horizon, given the raw sketch of each and its number of records."""
    return list(
        _rows(leaves, horizon, kind, rho, records or [0] * len(leaves), timeline_of_run(run or secrets.token_bytes(16)))
    )


def _rows(
    leaves: Sequence[Any], horizon: Horizon, kind: str, rho: float, records: Sequence[int], run: bytes
) -> Iterator[Any]:
    mechanism = mechanism_of(kind, horizon.windows)
    terms = RowTerms(PrivacySpec(rho=rho), privacy_unit=PrivacyUnit.RECORD_OVER_HORIZON, mechanism=mechanism)
    terms = dataclasses.replace(terms, total_cells=leaves[0].spec.total_cells)
    encoder, calibration = RowEncoder(mechanism), Calibration.of(leaves[0].spec, terms)
    for window, (leaf, count) in enumerate(zip(leaves, records, strict=True)):
        vector = np.append(leaf.to_vector(), np.full(len(terms.counters), count))
        for number, row in encoder.push(vector):
            exact, side = np.split(row, [leaf.spec.cells])
            name = part_name(("row", number), *horizon.edges(window))
            part = Part(type(leaf).from_vector(leaf.spec, exact), side, name, run)
            yield from answers_of(release_parts([part], calibration, row=number))
