"""An expansion service whose worker draws no noise, for tests alone: ``python -m tests.engines.exact_expansion``."""

from __future__ import annotations

import sys

import pytest

from beam_dpsketch.cli.main import main
from tests.helpers import noise


def without_noise() -> int:
    """Serve, with the exact counters in the place of noisy ones."""
    noise.without_noise(pytest.MonkeyPatch())
    return main(["expansion-service", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(without_noise())
