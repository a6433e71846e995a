"""Which decoder reads the rows of a mechanism."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beam_dpsketch.estimators.over_time.root_decoder import RootDecoder
from beam_dpsketch.estimators.over_time.row_decoder import RowDecoder
from beam_dpsketch.estimators.over_time.tree_decoder import TreeDecoder
from beam_dpsketch.privacy.over_time.binned import BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.over_time.tree import BinaryTree

_DECODERS = {BinnedRoot: RootDecoder, BinaryTree: TreeDecoder}


def decoder_of(mechanism: RowMechanism, row: Callable[[int], np.ndarray]) -> RowDecoder:
    """Return the decoder; `row` gives the values of a row by its number."""
    return _DECODERS[type(mechanism)](mechanism, row)
