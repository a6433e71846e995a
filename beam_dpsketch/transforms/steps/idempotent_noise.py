"""Noise that a replay draws again, byte for byte, for runners that may run a release twice.

Guarantee: each release is rho-zCDP against anyone who neither knows the secret nor breaks HMAC-SHA256 and AES-256; the
guarantee is computational. A replayed bundle, a restarted worker, and a whole job run again on the same input under
the same release id release the same bytes, on any runner and under any label, which costs nothing more. A release id
names one transform on one input: different data under one release id cost another rho and show that they differ, and
equal releases under it show that two inputs are equal.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import pathlib
import re
import weakref
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.utils.secret import Secret

from beam_dpsketch.hashing.encodings import encode
from beam_dpsketch.privacy.keyed_randomness import MIN_SECRET_BYTES, KeyedRandomness
from beam_dpsketch.release.release_id import RUN_BYTES
from beam_dpsketch.transforms.steps.application import application

Self = TypeVar("Self", bound="Replayable")

MAX_RELEASE_ID = 1024

_NAMED: weakref.WeakKeyDictionary[beam.Pipeline, dict[str, str]] = weakref.WeakKeyDictionary()
"""The release ids of each pipeline, and the path of the transform that each names."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_WORDS = re.compile(r"[A-Z0-9]*(_[A-Z0-9]*)+|[a-z0-9]*(_[a-z0-9]*)+", re.ASCII)


class EnvironmentSecret(Secret):
    """A secret in an environment variable of each worker, as text of at least 32 characters.

    A name as long as a secret may be one by mistake, and is never repeated in an error.

    Args:
      variable: the name of the variable: letters, digits and underscores. A name of 32 characters or more must be
        words of one case joined by underscores, which secrets in hex, base32 or base64 are not.
    """

    def __init__(self, variable: str) -> None:
        super().__init__()
        if not isinstance(variable, str):
            raise TypeError(f"variable must be the name of an environment variable, got {type(variable).__name__}")
        if not _NAME.fullmatch(variable) or (_is_long(variable) and not _is_long_name(variable)):
            raise ValueError(
                "variable must be the name of an environment variable, such as DPSKETCH_SECRET; it cannot be what is "
                "in one, which would put the secret into the pipeline"
            )
        self._variable = variable

    def get_secret_bytes(self) -> bytes:
        """The value of the variable, on this worker."""
        value = os.environb.get(os.fsencode(self._variable))
        if value is None:
            name = "of the secret" if _is_long(self._variable) else repr(self._variable)
            raise LookupError(
                f"the environment variable {name} is not set on this worker; set it on every worker, to the same secret"
            )
        return value


class FileSecret(Secret):
    """A secret in a file on each worker, without the line end after it, if any.

    Args:
      path: of the file, on the workers.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._path = os.fspath(path)

    def get_secret_bytes(self) -> bytes:
        """What is in the file, on this worker."""
        try:
            content = pathlib.Path(self._path).read_bytes()
        except OSError as error:
            raise LookupError(
                f"the file of the secret cannot be read on this worker ({type(error).__name__}); put it on every worker"
            ) from None
        return content.rstrip(b"\r\n")


@dataclasses.dataclass(frozen=True)
class IdempotentNoise:
    """A release id, and where workers find the secret; see `Replayable.with_idempotent_noise`."""

    release_id: str
    secret: Secret

    def __post_init__(self) -> None:
        if not isinstance(self.release_id, str) or not 0 < len(self.release_id) <= MAX_RELEASE_ID:
            raise ValueError(f"release_id must be a text of 1 to {MAX_RELEASE_ID} characters")
        if not isinstance(self.secret, Secret):
            raise TypeError(
                "secret must say where workers find the secret: EnvironmentSecret, FileSecret or another Beam Secret; "
                f"got {type(self.secret).__name__}, which would put it into the pipeline"
            )

    def on_worker(self) -> KeyedRandomness:
        """The randomness of the transform that the release id names; resolves the secret, so only on workers."""
        return KeyedRandomness(self.secret.get_secret_bytes(), encode((self.release_id,)))

    def check_first_use(self, elements: beam.PCollection) -> None:
        """Refuses a second transform of the pipeline, or a second application of one, under this release id."""
        path = application(elements)[1]
        if _NAMED.setdefault(elements.pipeline, {}).setdefault(self.release_id, path) != path:
            raise ValueError(
                f"release_id={self.release_id!r} names another transform of this pipeline already: equal releases "
                "under one id would show that two inputs are equal; give each transform, and each input, an id of its "
                "own"
            )


class Replayable(beam.PTransform):
    """A transform with releases whose noise can be made idempotent."""

    _idempotent_noise: IdempotentNoise | None = None

    @property
    def is_idempotent(self) -> bool:
        """Whether `with_idempotent_noise` made it."""
        return self._idempotent_noise is not None

    def with_idempotent_noise(self: Self, *, release_id: str, secret: Secret) -> Self:
        """A copy of the transform whose noise is a function of a secret and of everything that is released.

        For Flink, Spark and other runners whose `Reshuffle` is not durable: after a failure they may compute a window
        again that is published already, and new noise would be another release of the same data. So the replay
        releases the same bytes. Which records of a privacy id are kept is decided by the secret too.

        Args:
          release_id: names this release of this input, such as "visits 2026-11-21". One release id means one
            transform on one immutable input, in all jobs with this secret; a second transform of a pipeline under it is
            refused. Give every planned release a new one, and run again under an old one only to repeat the same
            release; labels may change. A run that sees other data under it (a corrected file, data that were late the
            first time) is another release of every window that changed: it costs another rho, and reveals the change.
          secret: where each worker finds the secret, at least 32 random bytes, the same on all: `EnvironmentSecret`,
            `FileSecret`, or another Beam `Secret` such as `GcpSecret`. The secret itself is never in the pipeline.
            Who learns it can take the noise off every release made with it.
        """
        changed = copy.copy(self)
        changed._idempotent_noise = IdempotentNoise(release_id, secret)
        return changed

    def check_release_id(self, elements: beam.PCollection) -> None:
        """Refuses a release id that names another transform of the pipeline."""
        if self._idempotent_noise is not None:
            self._idempotent_noise.check_first_use(elements)

    def display_of_noise(self) -> dict[str, Any]:
        """What display data say of it: the release id, nothing of the secret."""
        return {} if self._idempotent_noise is None else {"release_id": self._idempotent_noise.release_id}


def of_release(transform: KeyedRandomness, part: bytes, pane: int) -> KeyedRandomness:
    """The randomness of one release of a transform.

    Args:
      transform: the randomness of the transform.
      part: the name of the release, of its key or level and its window; see `part_name`.
      pane: its number among the firings of the window.
    """
    return transform.within(encode((part, pane)))


def run_of(transform: KeyedRandomness) -> bytes:
    """The name of the run: one release id names one transform on one input, so that a replay is the same run."""
    return transform.random_bytes(b"run")(RUN_BYTES)


def _is_long(name: str) -> bool:
    return len(name) >= MIN_SECRET_BYTES


def _is_long_name(name: str) -> bool:
    return _WORDS.fullmatch(name) is not None and name not in os.environ.values()
