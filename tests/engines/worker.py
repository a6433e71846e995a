"""A worker process as task managers start them (``--environment_type=PROCESS``)."""

from __future__ import annotations

import argparse

import grpc
from apache_beam.portability.api import beam_provision_api_pb2 as provision
from apache_beam.portability.api import beam_provision_api_pb2_grpc as services
from apache_beam.runners.worker.sdk_worker import SdkHarness
from apache_beam.runners.worker.worker_id_interceptor import WorkerIdInterceptor


def main() -> None:
    """Work until the task manager is done, or dead."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", required=True)
    parser.add_argument("--provision_endpoint", required=True)
    known, _ = parser.parse_known_args()
    with grpc.insecure_channel(known.provision_endpoint) as channel:
        identified = grpc.intercept_channel(channel, WorkerIdInterceptor(known.id))
        answer = services.ProvisionServiceStub(identified).GetProvisionInfo(provision.GetProvisionInfoRequest())
    SdkHarness(answer.info.control_endpoint.url, worker_id=known.id).run()


if __name__ == "__main__":
    main()
