"""Why others are closer, by data, question and our method: one investigated sentence each."""

from benchmarks.public.contest import OURS, OURS_AUTO
from benchmarks.public.flights import COUNTS, DATA, QUANTILES
from benchmarks.public.zipf import LATER, NO_LIST, RANDOM, TOP

SKETCH = (
    "A CountSketch of the default size, 5 rows of 4,096 cells, adds collisions, and noise for 5 rows. A list that is "
    "declared before the release has the error of a plain histogram, as in the rows with a public list."
)
REASONS = {
    (DATA, COUNTS, OURS_AUTO): (
        "Auto norm chooses an L2 norm, about 135 flights, unless it is set to `norm: l1`; most aircraft have few "
        "destinations, for which an L1 norm of about 320 flights has less error."
    ),
    (DATA, QUANTILES, OURS_AUTO): (
        "No rule of auto norm suits all quantiles. It chooses about 150 flights. Aircraft have similar delays, so that "
        "clipping moves deciles little, and norms of 5 to 20 flights have less error. The pages recommend a known norm."
    ),
    (NO_LIST, RANDOM, OURS): (
        "The threshold, 16, uses half of delta, because Gaussian noise would need the other half. OpenDP's is 14. With "
        "`method: {threshold: {delta: 9.9e-7}}` it is 15."
    ),
    (LATER, TOP, OURS): SKETCH,
    (LATER, RANDOM, OURS): SKETCH,
}
