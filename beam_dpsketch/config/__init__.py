"""Build the package's value objects from plain settings.

Each function reads one block and returns one value object. A block is a dict, JSON text, YAML text (if PyYAML is
installed), a named tuple or a Beam row. This package does not import Beam. Settings have the names of the Python
arguments:

    kind: top_k
    item: source_ip
    domain: {type: ipv4}
    k: 5
    privacy: {epsilon: 2, delta: 1.0e-6}
    privacy_unit: {privacy_id: person, norm: {max_norm: 10}}
    keys: {public: [NL, "NO"], field: country}

| function | settings |
|---|---|
| `read_release` | a whole release, as a `ReleaseSpec` |
| `read_privacy` | `{epsilon, delta}` or `{rho, delta}`, with relation, summary_counts |
| `read_summary_counts` | `{units, records, weight, clipping}`, or `none` |
| `read_privacy_unit` | `record`, `{record: {...}}`, or `{privacy_id, norm or records, max_windows, period}` |
| `read_norm` | `{max_norm, ...}`, `auto`, or `{auto: {...}}` |
| `read_records` | `{max_records, ...}` |
| `read_keys` | `{public: [...], field}`, `{select: {delta, ...}, field}`, or `{assume_public: true, field}` |
| `read_windows` | `{start, end}`, or `[start, end]` |
| `read_horizon` | `{start, window_size, windows, mechanism}` |
| `read_time` | `{field, every, window_size}` in a table, or the column name |
| `read_csv` | `{thousands, decimal, date_format}` in CSV files |
| `read_method` | `{threshold: {delta}}` |
| `read_domain` | `{type, ...}`, or a type name without settings |
| `read_tree` | `{memory, ...}` or `{levels: [...]}`, over a domain |
| `read_spec` | `{depth, width, ...}` or `{relative_error, failure_probability, ...}` |
| `read_listed_items` | a list |
| `read_ask` | one question, `{quantiles: [0.5]}`, as an `Ask` |

Every mistake raises a `ConfigError`. Its message begins with the path of the setting, then names the expected value and
the fix. Messages do not show keys, items or the key of a hash, although settings are public.

Numbers may be text, because YAML reads 1e-6 as text. Booleans are not numbers. Times are quoted ISO text, or seconds
since 1970. Without a time zone they are in UTC. Durations are text such as `30m`, `1h` or `7d`, or seconds. A `null`
value counts as missing, but is refused in `summary_counts`. `docs/settings.md` lists all settings.
"""

from beam_dpsketch.config.asking import read_ask
from beam_dpsketch.config.release import (
    read_csv,
    read_domain,
    read_horizon,
    read_keys,
    read_listed_items,
    read_method,
    read_norm,
    read_privacy,
    read_privacy_unit,
    read_records,
    read_release,
    read_spec,
    read_summary_counts,
    read_time,
    read_tree,
    read_windows,
)
from beam_dpsketch.errors import ConfigError

# fmt: off
__all__ = [
    "ConfigError", "read_ask", "read_csv", "read_domain", "read_horizon", "read_keys", "read_listed_items",
    "read_method", "read_norm", "read_privacy", "read_privacy_unit", "read_records", "read_release", "read_spec",
    "read_summary_counts", "read_time", "read_tree", "read_windows",
]
# fmt: on
