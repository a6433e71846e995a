"""Apache Beam transforms that read elements, bound contributions, combine, and release once."""

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.transforms.combine_fns import BoundContributions, BoundedRecord, PrivateSketchFn
from beam_dpsketch.transforms.doors import (
    PrivateFrequencies,
    PrivateMetrics,
    PrivateQuantiles,
    PrivateStatistics,
    PrivateTopK,
)
from beam_dpsketch.transforms.files import ReadReleases, WriteReleases, read_releases, window_file
from beam_dpsketch.transforms.outputs import QueryReleases, TopK
from beam_dpsketch.transforms.select_keys import SelectKeys
from beam_dpsketch.transforms.steps.idempotent_noise import EnvironmentSecret, FileSecret

# fmt: off
__all__ = [
    "Ask", "BoundContributions", "BoundedRecord", "EnvironmentSecret", "FileSecret", "PrivateFrequencies",
    "PrivateMetrics", "PrivateQuantiles", "PrivateSketchFn", "PrivateStatistics", "PrivateTopK", "QueryReleases",
    "ReadReleases", "SelectKeys", "TopK", "WriteReleases", "read_releases", "window_file",
]
# fmt: on

_validate.explain_calls(*(each for each in map(globals().get, __all__) if isinstance(each, type)))
