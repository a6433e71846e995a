"""Where workers find the secret of idempotent noise."""

import os
import pathlib
import re

from apache_beam.utils.secret import Secret

from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.privacy.keyed_randomness import MIN_SECRET_BYTES

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
            raise ArgumentTypeError(
                "variable", f"must be the name of an environment variable, got {type(variable).__name__}", "E121"
            )
        is_words = _WORDS.fullmatch(variable) and variable not in os.environ.values()
        if not _NAME.fullmatch(variable) or (_is_long(variable) and not is_words):
            raise ArgumentError(
                "variable",
                "must be the name of an environment variable, such as DPSKETCH_SECRET; it cannot be what is in "
                "one, which would put the secret into the pipeline",
                "E121",
            )
        self._variable = variable

    def get_secret_bytes(self) -> bytes:
        """Return the value of the variable, on this worker."""
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
      path: where the file is, on the workers.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._path = os.fspath(path)

    def get_secret_bytes(self) -> bytes:
        """Return what is in the file, on this worker."""
        try:
            content = pathlib.Path(self._path).read_bytes()
        except OSError as error:
            raise LookupError(
                f"the file of the secret cannot be read on this worker ({type(error).__name__}); put it on every worker"
            ) from None
        return content.rstrip(b"\r\n")


def _is_long(name: str) -> bool:
    return len(name) >= MIN_SECRET_BYTES
