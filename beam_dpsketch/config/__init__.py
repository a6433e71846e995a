"""Settings in place of Python: plain values to the value objects of the package.

Each function reads one block and returns one value object. A block is a dict, JSON text, YAML text (where PyYAML is
installed), a named tuple, or a row of Beam; nothing here imports Beam. Names are those of the Python arguments:

    kind: top_k
    item: source_ip
    domain: {type: ipv4}
    k: 5
    privacy: {epsilon: 2, delta: 1.0e-6}
    unit: {privacy_id: person, norm: {max_norm: 10}}
    keys: {public: [NL, "NO"], field: country}

| function | settings |
|---|---|
| `read_release` | all of a release, to a `ReleaseSpec` |
| `read_privacy` | `{epsilon, delta}` or `{rho, delta}`, with relation, side_counters |
| `read_side_counters` | `{units, records, weight, lost}`, or `none` |
| `read_unit` | `record`, `{record: {...}}`, or `{privacy_id, norm or records, max_windows, period}` |
| `read_norm` | `{max_norm, ...}`, `auto`, or `{auto: {...}}` |
| `read_records` | `{max_per_key, ...}` |
| `read_keys` | `{public: [...], field}`, `{select: {delta, ...}, field}`, or `{assume_public: true, field}` |
| `read_windows` | `{start, end}`, or `[start, end]` |
| `read_horizon` | `{start, window_size, windows, mechanism}` |
| `read_time` | `{field, every, window_size}` of a table, or the name of the column |
| `read_csv` | `{thousands, decimal, date_format}` of CSV files |
| `read_method` | `{groups: {delta}}` |
| `read_domain` | `{type, ...}`, or the name of a type without settings |
| `read_tree` | `{memory, ...}` or `{levels: [...]}`, over a domain |
| `read_spec` | `{depth, width, ...}` or `{relative_error, failure_probability, ...}` |
| `read_items` | a list |
| `read_ask` | one kind of question, `{quantiles: [0.5]}`, to an `Ask` |

Every mistake is a `ConfigError`. Its message begins with the path of the setting, and says what was expected and how to
repair it. Settings are public, but keys, items and the key of a hash are not shown in messages.

Numbers may be text, because YAML reads 1e-6 as text. Booleans are not numbers. Times are ISO text in quotes, or seconds
since 1970; without a zone they are in UTC. Lengths of time are text such as `30m`, `1h` or `7d`, or seconds. What is
`null` is not given. `docs/settings.md` lists all settings.
"""

from beam_dpsketch.config.asking import read_ask
from beam_dpsketch.config.release import (
    read_csv,
    read_domain,
    read_horizon,
    read_items,
    read_keys,
    read_method,
    read_norm,
    read_privacy,
    read_records,
    read_release,
    read_side_counters,
    read_spec,
    read_time,
    read_tree,
    read_unit,
    read_windows,
)
from beam_dpsketch.errors import ConfigError

# fmt: off
__all__ = [
    "ConfigError", "read_ask", "read_csv", "read_domain", "read_horizon", "read_items", "read_keys", "read_method",
    "read_norm", "read_privacy", "read_records", "read_release", "read_side_counters", "read_spec", "read_time",
    "read_tree", "read_unit", "read_windows",
]
# fmt: on
