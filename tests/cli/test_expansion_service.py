"""`dpsketch expansion-service` as a process: what it prints, where it listens, and how it stops."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import grpc
import pytest
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_expansion_api_pb2,
    beam_expansion_api_pb2_grpc,
)

from tests.cli.consoles import ROOT, run


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """The processes of a test, which end with it."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def start(started: list[subprocess.Popen[str]], *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A service at a free port, and what it says when it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "beam_dpsketch", "expansion-service", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    started.append(process)
    assert process.stdout is not None
    return process, process.stdout.readline()


def ended(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    """The exit code after a signal, what else was printed on stdout, and our lines on stderr."""
    process.send_signal(number)
    printed, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    return process.returncode, printed, "".join(line for line in said.splitlines(True) if line.startswith("dpsketch: "))


def test_it_listens_on_this_machine_answers_and_stops(started: list[subprocess.Popen[str]]) -> None:
    process, line = start(started)
    found = re.fullmatch(r"listening on localhost:(\d+)\n", line)
    assert found
    with grpc.insecure_channel(f"localhost:{found[1]}") as channel:
        stub = beam_expansion_api_pb2_grpc.ExpansionServiceStub(channel)
        answer = stub.Expand(beam_expansion_api_pb2.ExpansionRequest(namespace="n"), timeout=60)
        artifacts = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            [*artifacts.GetArtifact(beam_artifact_api_pb2.GetArtifactRequest(), timeout=60)]
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert answer.error.startswith("urn: must be ")
    others = [each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    for address in {each for each in others if not each.startswith("127.")}:
        with socket.socket() as client:
            client.settimeout(5)
            assert client.connect_ex((address, int(found[1]))) != 0
    assert run("expansion-service", "--port", found[1])[0] == 2
    assert ended(process, signal.SIGTERM) == (0, "", "")


@pytest.mark.slow
def test_a_service_for_all_who_reach_it_says_so_and_an_interrupt_is_no_error(
    started: list[subprocess.Popen[str]],
) -> None:
    process, line = start(started, "--host", "0.0.0.0")
    assert re.fullmatch(r"listening on 0\.0\.0\.0:\d+\n", line)
    code, printed, said = ended(process, signal.SIGINT)
    assert (code, printed) == (0, "")
    assert said.startswith("dpsketch: the service requires no password. Anyone who reaches this port can use it")
    assert "run any code in this process" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["--worker", "docker"],
        ["--image", "x"],
        ["--worker", "flink"],
        ["--port", "65536"],
        ["--port", "-1"],
        ["--host", "256.256.256.256"],
        ["x.dpsketch"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str]) -> None:
    code, printed = run("expansion-service", *arguments)
    assert code == 2
    assert re.search(r"^dpsketch: .*\n\Z", printed, re.MULTILINE)
    assert "Traceback" not in printed
