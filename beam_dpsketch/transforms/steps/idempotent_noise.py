"""Replayable noise, equal byte for byte after a replay, and the sources of its secret.

It is for runners that may run a release twice. Guarantee: each release is rho-zCDP against anyone who neither has the
secret nor breaks HMAC-SHA256 and AES-256. The guarantee is computational. A replayed bundle, a restarted worker, and a
whole job run again on the same input under the same release id release the same bytes, on any runner and under any
label, without further privacy loss. A release id names a single transform on a single input: different data under the
same release id cost another rho and reveal the difference, and equal releases under it reveal that two inputs are
equal. All randomness depends on `ReleaseSpec.identify` too. Therefore, transforms with other settings are other runs,
with unrelated noise, even under the same release id.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import pathlib
import re
import weakref
from typing import Any, Self

import apache_beam as beam
from apache_beam.utils.secret import Secret

from beam_dpsketch.encodings import encode
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.bounding.record_rule import KeyedPriorities, Priorities, RandomPriorities
from beam_dpsketch.noise.run import Run
from beam_dpsketch.privacy.noise.keyed_randomness import MIN_SECRET_BYTES, KeyedRandomness

MAX_RELEASE_ID = 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_WORDS = re.compile(r"[A-Z0-9]*(_[A-Z0-9]*)+|[a-z0-9]*(_[a-z0-9]*)+", re.ASCII)

# Release ids of each pipeline, with the path of their transform.
_NAMED: weakref.WeakKeyDictionary[beam.Pipeline, dict[str, str]] = weakref.WeakKeyDictionary()


def application(elements: beam.PCollection) -> tuple[weakref.ref[beam.Pipeline], str]:
    """Identify the transform that is being expanded, for resources that may be used only once.

    A runner that expands it again uses the same pipeline and path. Beam allows each path only once.
    """
    pipeline = elements.pipeline
    return weakref.ref(pipeline), pipeline.transforms_stack[-1].full_label


@dataclasses.dataclass(frozen=True)
class IdempotentNoise:
    """Release id, and the source of the secret on workers. See `Replayable.with_idempotent_noise`.

    `transform` identifies the transform, once `ReleaseSpec.identify` has computed it.
    """

    release_id: str
    secret: Secret
    transform: bytes = b""

    def __post_init__(self) -> None:
        if not isinstance(self.release_id, str) or not 0 < len(self.release_id) <= MAX_RELEASE_ID:
            raise ArgumentError("release_id", f"must be text with 1 to {MAX_RELEASE_ID} characters", "E123")
        if not isinstance(self.secret, Secret):
            raise ArgumentTypeError(
                "secret",
                "must be EnvironmentSecret, FileSecret or another Beam Secret, which workers read, got "
                f"{type(self.secret).__name__}. The secret itself must not be part of the pipeline",
                "E122",
            )

    def resolve_secret(self) -> KeyedRandomness:
        """Derive the transform's randomness under this release id. Call it only on workers: it resolves the secret."""
        keyed = KeyedRandomness(self.secret.get_secret_bytes(), encode((self.release_id,)))
        return keyed.derive(self.transform) if self.transform else keyed


class DrawsNoise(beam.DoFn):
    """Step that draws noise, and names its run.

    Args:
      idempotent_noise: makes both a function of a secret, which the step has only while it runs. `None` uses system
        entropy.
    """

    def __init__(self, idempotent_noise: IdempotentNoise | None) -> None:
        self._idempotent_noise = idempotent_noise
        self._run = Run() if idempotent_noise is None else None

    def setup(self) -> None:
        if self._idempotent_noise is not None:
            self._run = Run(self._idempotent_noise.resolve_secret())

    def teardown(self) -> None:
        if self._idempotent_noise is not None:
            self._run = None

    def run(self) -> Run:
        """Get the noise source. A step without its secret has none: entropy never replaces the secret."""
        assert self._run is not None
        return self._run


class Replayable(beam.PTransform):
    """Transform with releases whose noise can be made idempotent."""

    _idempotent_noise: IdempotentNoise | None = None

    @property
    def is_idempotent(self) -> bool:
        """Whether `with_idempotent_noise` created this transform."""
        return self._idempotent_noise is not None

    def with_idempotent_noise(self, *, release_id: str, secret: Secret) -> Self:
        """Copy the transform, with noise that is a function of a secret and of everything that is released.

        Use it on Flink, Spark and other runners whose `Reshuffle` is not durable. After a failure they may compute a
        published window again, and new noise would be another release of the same data. With this option the replay
        releases the same bytes. The secret also decides the sampling of a privacy id's records.

        Args:
          release_id: names this release of this input, such as "visits 2026-11-21". One release id means a single
            transform on a single immutable input, in all jobs with this secret. A second transform of a pipeline under
            it is refused. Use a new id for every planned release, and run again under an old id only to repeat the same
            release. Labels may change. A run on other data under it (a corrected file, or data that were late the first
            time) is another release of every window that changed: it costs another rho, and reveals the change.
          secret: source of the secret on each worker, at least 32 random bytes, equal on all: `EnvironmentSecret`,
            `FileSecret`, or another Beam `Secret` such as `GcpSecret`. The secret itself is never in the pipeline.
            Anyone who learns it can remove the noise from every release made with it.
        """
        changed = copy.copy(self)
        changed._idempotent_noise = IdempotentNoise(release_id, secret)
        return changed

    def check_release_id(self, elements: beam.PCollection) -> None:
        """Raise if the release id names another transform of the pipeline, or another application of this one."""
        path, noise = application(elements)[1], self._idempotent_noise
        if noise and _NAMED.setdefault(elements.pipeline, {}).setdefault(noise.release_id, path) != path:
            raise ArgumentError(
                "",
                f"release_id={noise.release_id!r} is already used by another transform of this pipeline. Equal "
                "releases with a common id would reveal that two inputs are equal. Use a separate id for each "
                "transform and each input",
                "E123",
            )

    def display_of_noise(self) -> dict[str, Any]:
        """List the noise settings: the release id, without the secret."""
        return {} if self._idempotent_noise is None else {"release_id": self._idempotent_noise.release_id}


def choose_priorities(idempotent_noise: IdempotentNoise | None) -> Priorities:
    """Create sampling priorities for one transform: keyed under idempotent noise, otherwise random."""
    return RandomPriorities() if idempotent_noise is None else KeyedPriorities(idempotent_noise.resolve_secret)


class EnvironmentSecret(Secret):
    """Secret in an environment variable of each worker, as text of at least 32 characters.

    A name as long as a secret may be a secret by mistake, and is never repeated in an error.

    Args:
      variable: the variable name: letters, digits and underscores. A name of 32 characters or more must be words in a
        single case joined by underscores, which secrets in hex, base32 or base64 are not.
    """

    def __init__(self, variable: str) -> None:
        super().__init__()
        if not isinstance(variable, str):
            raise ArgumentTypeError(
                "variable", f"must be an environment variable name, got {type(variable).__name__}", "E121"
            )
        is_words = _WORDS.fullmatch(variable) and variable not in os.environ.values()
        if not _NAME.fullmatch(variable) or (_is_long(variable) and not is_words):
            raise ArgumentError(
                "variable",
                "must be the name of an environment variable, such as DPSKETCH_SECRET. It must not be the secret "
                "itself, which would become part of the pipeline",
                "E121",
            )
        self._variable = variable

    def get_secret_bytes(self) -> bytes:
        """Read the variable on this worker."""
        value = os.environb.get(os.fsencode(self._variable))
        if value is None:
            name = "of the secret" if _is_long(self._variable) else repr(self._variable)
            raise LookupError(
                f"The environment variable {name} is not set on this worker. Set it on every worker, to the same secret"
            )
        return value


class FileSecret(Secret):
    """Secret in a file on each worker, without a final line end.

    Args:
      path: path of the file on the workers.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._path = os.fspath(path)

    def get_secret_bytes(self) -> bytes:
        """Read the file on this worker."""
        try:
            content = pathlib.Path(self._path).read_bytes()
        except OSError as error:
            raise LookupError(
                f"The secret file cannot be read on this worker ({type(error).__name__}). Put it on every worker"
            ) from None
        return content.rstrip(b"\r\n")


def _is_long(name: str) -> bool:
    return len(name) >= MIN_SECRET_BYTES
