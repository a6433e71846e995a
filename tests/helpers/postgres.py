"""A real server of PostgreSQL for tests: started as another user where this one is root, and ended after them."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_USERS = ("postgres", "nobody")
_CONNECTIONS = 150


def programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`, which Debian puts out of the way; `None` if there is none."""
    folders = [*sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True), *os.get_exec_path()]
    return next((Path(each) for each in folders if Path(each, "initdb").exists()), None)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Start an empty server that is reached by a socket of its own, and yield the URL of a database in it."""
    found = programs()
    assert found is not None, "PostgreSQL is not installed: apt-get install postgresql"
    user = _other_user() if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    if os.getuid() == 0:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data, log = folder / "data", folder / "log"
    run = _Runner(user, folder)
    try:
        run(found / "initdb", "-D", data, "-U", "ledger", "-A", "trust", "--no-sync")
        options = f"-k {folder} -c listen_addresses= -c max_connections={_CONNECTIONS}"
        run(found / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start")
        try:
            yield f"postgresql://ledger@/postgres?host={folder}"
        finally:
            run(found / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _other_user() -> Any:
    for name in _USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise AssertionError(f"the server refuses to run as root, and there is no user {' or '.join(_USERS)}")


class _Runner:
    def __init__(self, user: Any, folder: Path) -> None:
        self._user, self._folder = user, folder

    def __call__(self, *command: object) -> None:
        others = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
        done = subprocess.run(
            [str(each) for each in command],
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self._folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            **others,
        )
        assert done.returncode == 0, done.stderr
