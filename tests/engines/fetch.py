"""Fetches what the tests of engines run on: ``python -m tests.engines.fetch``; with an argument, prints one path.

Go builds Prism, and Maven brings the Flink job server, both of the Beam that is installed, into a cache outside the
repository. Where that job server is not published, Maven builds one of an older Beam (`flink_job_server.xml`). What is
missing is printed; the tests that need it are skipped and say so too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from apache_beam.options.pipeline_options import FlinkRunnerOptions
from apache_beam.version import __version__ as beam_version

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "beam_dpsketch", f"beam-{beam_version}")
BUILD = Path(__file__).with_name("flink_job_server.xml")
BUILT = "flink-job-server-2.70.0.jar"
FLINK_VERSIONS = FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS[::-1]


class MissingError(Exception):
    """What is needed and not there."""


def prism() -> Path:
    """The binary of Prism."""
    return _cached("Prism", ["prism"])


def flink_job_server() -> Path:
    """The job server of the newest Flink there is one for, with that Flink inside."""
    _need("java", "Java")
    names = [f"beam-runners-flink-{version}-job-server-{beam_version}.jar" for version in FLINK_VERSIONS]
    return _cached("the Flink job server", [*names, f"target/{BUILT}"])


def build_prism() -> Path:
    """Builds Prism, if need be."""
    if not (CACHE / "prism").exists():
        _need("go", "Go")
        _run(f"go install github.com/apache/beam/sdks/v2/go/cmd/prism@v{beam_version}", GOBIN=str(CACHE))
    return prism()


def copy_job_server() -> Path:
    """Asks Maven for the job server, if need be."""
    _need("java", "Java")
    try:
        return flink_job_server()
    except MissingError:
        _need("mvn", "Maven")
    for version in FLINK_VERSIONS:
        artifact = f"org.apache.beam:beam-runners-flink-{version}-job-server:{beam_version}"
        try:
            _run(f"mvn -U -B -q dependency:copy -Dartifact={artifact} -DoutputDirectory={CACHE}")
            return flink_job_server()
        except MissingError as refusal:
            print(f"Flink {version}: {refusal}", file=sys.stderr)
    shutil.copy(BUILD, CACHE / "pom.xml")
    _run("mvn -B -q package")
    return flink_job_server()


def _need(program: str, name: str) -> None:
    if shutil.which(program) is None:
        raise MissingError(f"needs {name}")


def _cached(tool: str, names: list[str]) -> Path:
    for name in names:
        if (CACHE / name).exists():
            return CACHE / name
    raise MissingError(f"needs {tool} of Beam {beam_version}: `make engines` fetches it or says why it cannot")


def _run(command: str, **environment: str) -> None:
    """Runs a command outside of all projects."""
    CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command.split(), cwd=CACHE, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        said = done.stdout + done.stderr
        missing = re.search(r"Could not find[^(\n]*", said)
        raise MissingError(missing[0].strip() if missing else f"{command.split()[0]} failed: {said[-300:]}")


def main() -> None:
    fetched = {"prism": build_prism, "flink": copy_job_server}
    if len(sys.argv) > 1:
        try:
            print(fetched[sys.argv[1]]())
        except MissingError as missing:
            sys.exit(f"{sys.argv[1]}: {missing}")
        return
    for engine, fetch in fetched.items():
        try:
            print(f"{engine}: {fetch()}")
        except MissingError as missing:
            print(f"{engine}: SKIPPED: {missing}")


if __name__ == "__main__":
    main()
