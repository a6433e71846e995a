"""A Flink cluster on this machine: ``python -m tests.engines.flink MODULE [OPTIONS]`` runs a pipeline on one.

A job manager, task managers and Beam's job server, each a process, from one jar. For tests and trials: it listens on
this machine only, and what it writes is in a folder that goes with it.
"""

from __future__ import annotations

import contextlib
import json
import runpy
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.engines import fetch
from tests.engines.processes import PATIENCE, free_port, running, wait_for, wait_until

REPOSITORY = Path(__file__).parents[2]
SLOTS = 2  # of each task manager: one that is left alone can still run a job of parallelism 2
# As Flink's own scripts have them for Java 17.
OPENED = ("lang", "lang.reflect", "net", "nio", "time", "util", "util.concurrent", "util.concurrent.atomic")
JAVA = ["java", *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED)]
SETTINGS = {
    "jobmanager.rpc.address": "localhost",
    "jobmanager.bind-host": "localhost",
    "jobmanager.memory.process.size": "1g",
    "rest.address": "localhost",
    "rest.bind-address": "localhost",
    "taskmanager.host": "localhost",
    "taskmanager.bind-host": "localhost",
    # What Flink's scripts work out of one total; without them each part has to be given.
    "taskmanager.cpu.cores": 1.0,
    "taskmanager.memory.task.heap.size": "640m",
    "taskmanager.memory.task.off-heap.size": "128m",
    "taskmanager.memory.framework.heap.size": "128m",
    "taskmanager.memory.framework.off-heap.size": "128m",
    "taskmanager.memory.network.min": "256m",
    "taskmanager.memory.network.max": "256m",
    "taskmanager.memory.managed.size": "256m",
    "taskmanager.memory.jvm-metaspace.size": "256m",
    "taskmanager.memory.jvm-overhead.min": "192m",
    "taskmanager.memory.jvm-overhead.max": "192m",
    # The demo has many shuffles at once.
    "taskmanager.network.sort-shuffle.min-buffers": 64,
    # Jobs begin again; for batches the option of Beam does not say so.
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 3,
    # Those that begin again wait for a task manager that is only starting; else each attempt without one fails at once,
    # from five minutes after the start of the cluster.
    "resourcemanager.standalone.start-up-time": 86_400_000,
    # A busy machine answers late. A process that was killed is noticed earlier, since it refuses connections.
    "heartbeat.interval": 1_000,
    "heartbeat.timeout": 60_000,
    "pekko.ask.timeout": "120 s",
    "pekko.lookup.timeout": "60 s",
    "pekko.tcp.timeout": "60 s",
    # The job server submits the jar that the cluster runs.
    "classloader.resolve-order": "parent-first",
}


JOB_SERVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"


def job_server_arguments(flink_master: str, port: int, folder: Path) -> list[str]:
    """A job server at a port; all others are any that are free."""
    options = {"flink-master": flink_master, "job-port": port, "artifacts-dir": folder / "artifacts"}
    options |= {"artifact-port": 0, "expansion-port": 0}
    return [f"--{name}={value}" for name, value in options.items()]


class FlinkCluster:
    """A cluster of two task managers while the `with` block lasts.

    Args:
      jar: of the job server, with Flink inside.
      folder: for all that it writes.
      slots: of each task manager.
      heap: of each task manager, in megabytes; what a worker sends waits there.

    Attributes:
      job_endpoint: of Beam's job server.
      folder: has a log of each process.
    """

    def __init__(self, jar: Path, folder: Path, *, slots: int = SLOTS, heap: int = 768) -> None:
        self.folder = folder
        self._jar, self._slots, self._heap = jar, slots, heap
        self._rest, self._job_port = free_port(), free_port()
        self.job_endpoint = f"localhost:{self._job_port}"
        self._task_managers: dict[str, subprocess.Popen[bytes]] = {}
        self._started = 0
        self._processes = contextlib.ExitStack()

    def __enter__(self) -> FlinkCluster:
        settings = SETTINGS | {
            "taskmanager.numberOfTaskSlots": self._slots,
            "jobmanager.rpc.port": free_port(),
            "rest.port": self._rest,
            "state.checkpoints.dir": (self.folder / "checkpoints").as_uri(),
            "io.tmp.dirs": self.folder / "temporary",
        }
        (self.folder / "temporary").mkdir()
        (self.folder / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
        with contextlib.ExitStack() as processes:
            self._processes = processes
            manager = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
            self._start("job manager", 512, manager, "--configDir", str(self.folder), port=self._rest)
            for _ in range(2):
                self.start_task_manager()
            arguments = job_server_arguments(f"localhost:{self._rest}", self._job_port, self.folder)
            self._start("job server", 512, JOB_SERVER, *arguments, port=self._job_port)
            wait_until(self._has_all_slots)
            self._processes = processes.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.close()

    def start_task_manager(self) -> None:
        self._started += 1
        name = f"task manager {self._started}"
        runner = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        arguments = ("--configDir", str(self.folder), "-D", f"taskmanager.resource-id={self._started}")
        self._task_managers[str(self._started)] = self._start(name, self._heap, runner, *arguments)

    def kill_task_manager(self) -> None:
        """Kills one that has work, and starts another."""
        taken = [each["id"] for each in self.get("taskmanagers")["taskmanagers"] if each["freeSlots"] < self._slots]
        self._task_managers.pop(taken[0]).kill()
        self.start_task_manager()

    def cancel(self) -> None:
        """Ends all jobs; what Beam's job server cancels goes on in the cluster."""
        for job in self._jobs():
            self.get(f"jobs/{job}?mode=cancel", method="PATCH")
        wait_until(self._has_all_slots)

    def get(self, path: str, method: str = "GET", body: dict[str, str] | None = None) -> Any:
        """What Flink's interface answers."""
        data, headers = (
            (None, {}) if body is None else (json.dumps(body).encode(), {"Content-Type": "application/json"})
        )
        request = urllib.request.Request(f"http://localhost:{self._rest}/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def checkpoints(self) -> dict[str, Any]:
        """What Flink says of the checkpoints of the one job that is not done; nothing if it does not answer."""
        try:
            jobs = self._jobs()
            return self.get(f"jobs/{jobs[0]}/checkpoints") if jobs else {}
        except urllib.error.URLError:  # also when a job is only beginning
            return {}

    def take_checkpoint(self) -> None:
        """Has the one job that is not done take a checkpoint, and waits until it is complete."""
        path = f"jobs/{self._jobs()[0]}/checkpoints"
        request = self.get(path, "POST", {"checkpointType": "FULL"})["request-id"]
        wait_until(lambda: self.get(f"{path}/{request}")["status"]["id"] == "COMPLETED")
        assert self.checkpoints()["counts"]["completed"], self.get(f"{path}/{request}")

    def worker_processes(self, parallelism: int | None = None, **environment: str) -> tuple[str, ...]:
        """The options that give each task manager worker processes of its own, by default on all slots."""
        script = self.folder / "worker.sh"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.engines.worker "$@"\n')
        script.chmod(0o755)
        of_workers = {"command": str(script), "env": {"PYTHONPATH": str(REPOSITORY), **environment}}
        return (
            f"--job_endpoint={self.job_endpoint}",
            "--environment_type=PROCESS",
            f"--environment_config={json.dumps(of_workers)}",
            f"--parallelism={parallelism or 2 * self._slots}",
        )

    def logs(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("*.txt"))

    def _jobs(self) -> list[str]:
        """Those that are not done."""
        return [each["jid"] for each in self.get("jobs/overview")["jobs"] if each["end-time"] < 0]

    def _has_all_slots(self) -> bool:
        for process in self._task_managers.values():
            assert process.poll() is None, self.logs()
        try:
            return self.get("overview")["slots-available"] == 2 * self._slots
        except urllib.error.URLError:  # not up yet
            return False

    def _start(
        self, name: str, megabytes: int, main: str, *arguments: str, port: int | None = None
    ) -> subprocess.Popen[bytes]:
        command = [*JAVA, f"-Xmx{megabytes}m", "-cp", str(self._jar), main, *arguments]
        log = self.folder / f"{name}.txt"
        process = self._processes.enter_context(running(command, log))
        if port is not None:
            wait_for(port, process, log)
        return process


def main() -> None:
    """Run a module's pipeline on a cluster."""
    try:
        jar = fetch.flink_job_server()
    except fetch.MissingError as missing:
        sys.exit(f"flink: {missing}")
    module, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, FlinkCluster(jar, Path(folder)) as cluster:
        endpoint = f"--job_endpoint={cluster.job_endpoint}"
        sys.argv = [
            module,
            *options,
            "--runner=FlinkRunner",
            endpoint,
            "--environment_type=LOOPBACK",
            "--parallelism=2",
        ]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
