"""Progress of a running pipeline, observed through its output files, as in a dashboard."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

PATIENCE = 0.1  # seconds between checks


def appearing(pipeline: beam.Pipeline, paths: Sequence[str], *, overwrite: bool = False) -> Iterator[int]:
    """Run a pipeline, and yield the index of each of these files, in order, when it appears.

    Existing files with these names are refused, or removed first with `overwrite`. Errors of the pipeline are raised.
    """
    earlier = [path for path in paths if FileSystems.exists(path)]
    if earlier and not overwrite:
        raise FileExistsError(f"{earlier[0]} exists already; change --output, or add --overwrite")
    FileSystems.delete(earlier)
    result = pipeline.run()
    with ThreadPoolExecutor(1) as background:
        finished = background.submit(result.wait_until_finish)
        for place, path in enumerate(paths):
            while not finished.done() and not FileSystems.exists(path):
                time.sleep(PATIENCE)
            if finished.done():
                finished.result()
            yield place
