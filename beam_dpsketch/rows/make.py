"""From settings to the private transforms of Python."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from apache_beam.utils.secret import Secret

from beam_dpsketch.config.blocks import plain, read_block, take_one
from beam_dpsketch.config.scalars import read_text
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.transforms import EnvironmentSecret, FileSecret, PrivateFrequencies, PrivateQuantiles, PrivateTopK
from beam_dpsketch.transforms.steps.private_release import PrivateRelease

_DOORS: dict[str, type[PrivateRelease[Any]]] = {
    "frequencies": PrivateFrequencies,
    "quantiles": PrivateQuantiles,
    "top_k": PrivateTopK,
}
_NOISE = {"release_id": read_text, "environment": read_text, "file": read_text}
_WORDS = "say where workers find the secret, as environment: DPSKETCH_SECRET, or file: /run/secrets/dpsketch"


def private_transform(declared: ReleaseSpec) -> PrivateRelease[Any]:
    """Return the private transform of a declared release.

    >>> from beam_dpsketch.config import read_release
    >>> settings = {"kind": "frequencies", "item": "city", "privacy": {"rho": 0.5}, "unit": "record"}
    >>> private_transform(read_release(settings)).default_label()
    'PrivateFrequencies'
    """
    return _DOORS[declared.count.name].of(declared)


def read_noise(settings: Any, path: str = "idempotent_noise") -> dict[str, Any]:
    """Return the arguments of noise that a replay draws again: `{release_id, environment}`, or `file`."""
    given = read_block(settings, path, _NOISE, {"release_id": "names this release of this input, as visits 2026-11-21"})
    place = take_one(given, path, ("environment", "file"), _WORDS)
    secret: Secret = EnvironmentSecret(given[place]) if place == "environment" else FileSecret(given[place])
    return {"release_id": given["release_id"], "secret": secret}


def digest(settings: dict[str, Any]) -> str:
    """Return a few characters that differ for different settings, for labels: some SDKs repeat the other parts."""
    text = json.dumps(plain(settings, ""), sort_keys=True, default=repr)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
