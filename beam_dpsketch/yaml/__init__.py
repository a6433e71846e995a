"""Beam YAML: the listing of the transforms of `beam_dpsketch.rows`, which is part of the package.

A pipeline includes the listing, or names single transforms; `docs/yaml.md` shows both. Nothing here imports Beam.
"""

from __future__ import annotations

from pathlib import Path


def providers_path() -> Path:
    """Return where the listing of all transforms is, for `providers: [{include: ...}]`.

    >>> providers_path().name
    'providers.yaml'
    """
    return Path(__file__).with_name("providers.yaml")


__all__ = ["providers_path"]
