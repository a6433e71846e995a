"""Table of settings: their blocks, and their differences from the arguments of value objects.

A setting has the name, type and default of its argument, and the first sentence of its documentation in the class.
So every documented argument is a setting, and an entry here adds the rest. Readers, schemas and signatures in
`beam_dpsketch.rows`, command options and the tables in `docs/settings.md` are built from these blocks. Backticks in
`words` appear only on the page. Domains and questions have tables of their own, which this module and `asking.py` read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from beam_dpsketch.config.asking import ASK_BLOCK
from beam_dpsketch.config.forms import (
    BYTES_FORM,
    FLAG_FORM,
    FRACTION_FORM,
    ITEM_FORM,
    ITEMS_FORM,
    NUMBER_FORM,
    PART_FORM,
    TEXT_FORM,
    Block,
    Entry,
    Form,
    ListOf,
    Option,
    block_of,
    one_of,
    read_choice,
    read_fraction,
    read_list,
    read_text,
    read_whole,
)
from beam_dpsketch.config.paths import refusal, shown
from beam_dpsketch.exact.bounding.parts import Scale
from beam_dpsketch.exact.declared.public import AssumePublicKeys, KeySelection, TimeColumn, TimeRange
from beam_dpsketch.exact.declared.units import PrivacyId, Record
from beam_dpsketch.exact.domains import DOMAINS, TimestampDomain
from beam_dpsketch.exact.domains.calendar import BUCKETS, Calendar
from beam_dpsketch.exact.domains.spelling import Spelling
from beam_dpsketch.exact.hashing.fingerprints import ITEM_HASHES
from beam_dpsketch.exact.horizon import MECHANISMS, Horizon
from beam_dpsketch.exact.reading.unreadable import UNREADABLE
from beam_dpsketch.exact.sketches.spec import FLAT_KINDS as SKETCHES
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.exact.sketches.trees import LEVEL_KINDS, Level, TreeSpec
from beam_dpsketch.planning.kinds import ALIASES, KINDS, METRIC_KINDS
from beam_dpsketch.planning.kinds.thresholded_counts import Thresholding
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import NeighboringRelation, RecordBounds
from beam_dpsketch.privacy.noise.laws import NOISES
from beam_dpsketch.privacy.norm.bounds import ITEM_SHARES, NORMS, AutoNorm, NormBound
from beam_dpsketch.privacy.selection import METHODS
from beam_dpsketch.privacy.summary_counts import SummaryCounts

_RELATION = Form(str, read_choice({relation.name.lower(): relation for relation in NeighboringRelation}))
ENCODING_FORM = Form(str, read_choice({"bytes": False, "base64": True}))
_SKETCH = one_of(SKETCHES)


def _read_share(value: Any, path: str) -> Fraction:
    share = read_fraction(value, path)
    if not 0 < share <= 1:
        raise refusal(path, "must be above 0 and at most 1, such as 1/4")
    return share


def _read_k(value: Any, path: str) -> int:
    k = read_whole(value, path)
    if k < 1:
        raise refusal(path, f"must be at least 1, got {k}")
    return k


def _read_true(value: Any, path: str) -> bool:
    if value is not True and value != "true":
        raise refusal(path, f"must be true, got {shown(value)}. To list or select keys, use public or select instead")
    return True


_SHARE, _K, _TRUE = Form(float, _read_share), Form(int, _read_k), Form(bool, _read_true)

_OF_TREES = ("quantiles", "top_k")


def _having(name: str) -> tuple[str, ...]:
    """List the release kinds that have an argument with this name."""
    fields: dict[str, Any] = {kind: dataclasses.fields(count) for kind, count in KINDS.items()}  # type: ignore[arg-type]
    return tuple(kind for kind in KINDS if any(each.init and each.name == name for each in fields[kind]))


# fmt: off
SUMMARY_BLOCK = block_of("SummaryCounts", SummaryCounts, {
    name: Entry(form=PART_FORM) for name in ("units", "records", "weight", "clipping")})
PRIVACY_BLOCK = block_of("Privacy", PrivacySpec, {
    "epsilon": Entry(
        "privacy loss of the release, above 0; without `delta` it is pure, with Laplace noise, which requires "
        "`max_records` or an L1 `norm`, and keys chosen without the data", NUMBER_FORM, option=Option("E")),
    "delta": Entry(option=Option("D")),
    "rho": Entry(option=Option("R")),
    "relation": Entry("`add_or_remove_one` or `replace_one`", _RELATION),
    "noise": Entry(form=one_of(tuple(NOISES)), option=Option("gaussian|laplace")),
    "share": Entry("the share of this budget that the release spends, above 0 and at most 1, such as `1/3`", _SHARE,
                   option=Option("S")),
    "summary_counts": Entry("a block, or `none` to spend all of rho on the sketch", SUMMARY_BLOCK),
    "ledger": Entry(
        "the file or the PostgreSQL URL of the ledger that pays for every run", TEXT_FORM,
        option=Option("FILE")),
    "account": Entry("the account of the ledger; required with `ledger`", TEXT_FORM, option=Option("NAME")),
}, either=(("epsilon", "rho"),))

_KEYS_OF_ID = Option(
    help="the number of keys, or texts, in which a privacy id counts; with --max-norm, the number of keys it votes for")
RECORD_BLOCK = block_of("Record", Record, {"max_weight": Entry(option=Option("W"))})
RECORDS_BLOCK = block_of("Records", RecordBounds, {
    "max_records": Entry(needed="the number of records per privacy id and key that count, such as 10", option=Option()),
    "max_keys": Entry(option=_KEYS_OF_ID),
}, like=RECORD_BLOCK)
_NORM = block_of("Norm", NormBound, {
    "max_norm": Entry(
        needed="the number of records per privacy id, over all keys, that always count in full, such as "
        "max_norm: 10, or use norm: auto",
        option=Option(
            "N|auto",
            "the number of records per privacy id, over all keys, that always count in full; auto: chosen from the "
            "data")),
    "norm": Entry(form=one_of(NORMS), option=Option("|".join(NORMS))),
    "max_keys": Entry(
        "the number of keys that a privacy id votes for, required with `keys: {select: ...}`; or the number of items "
        "in which it counts for thresholded counts, 128 if not given", option=_KEYS_OF_ID),
}, like=RECORD_BLOCK)
AUTO_BLOCK = block_of("Auto", AutoNorm, {
    "optimize_for": Entry(form=one_of(tuple(ITEM_SHARES))),
    "max_keys": Entry(
        "the number of items in which a privacy id counts for thresholded counts", usual="128", option=_KEYS_OF_ID),
}, like=_NORM)
NORM_BLOCK = dataclasses.replace(_NORM, either=(("max_norm", "auto"),), entries={
    **_NORM.entries, "auto": Entry("in place of `max_norm`: a block; the norm is chosen from the data", AUTO_BLOCK)})
UNIT_BLOCK = block_of("Unit", PrivacyId, {
    "privacy_id": Entry("the field with the privacy id; all records of a privacy id are protected together", TEXT_FORM,
                        option=Option("COLUMN")),
    "norm": Entry("the clipping norm: a block, or `auto`; scales larger contributions down", NORM_BLOCK),
    "records": Entry("the record bounds: a block; drops records above them at random", RECORDS_BLOCK),
    "max_windows": Entry(
        "the number of windows in which a privacy id counts; if not given, `records` protect a privacy id within each "
        "window"),
    "record": Entry("in place of all other settings: `{}`, or a block with `max_weight` and `signed`", RECORD_BLOCK,
                    option=Option("record", "protect single records instead of privacy ids", "privacy_unit")),
}, either=(("privacy_id", "record"), ("norm", "records")), without=("field", "bounds"))

SELECT_BLOCK = dataclasses.replace(block_of("Select", KeySelection, {
    "delta": Entry(
        needed="a probability well below 1 / (number of privacy ids), such as 1.0e-8",
        option=Option(
            "DELTA",
            "release keys with enough privacy ids; the probability that a key with a single privacy id is released, "
            "such as 1e-8", "select_keys")),
    "method": Entry(
        "`two_rounds` or `gaussian`; `geometric` is possible only if keys are released alone", one_of(METHODS)),
}, without=("field", "opaque_bytes")), maker=dict)
CALENDAR_BLOCK = block_of("Calendar", Calendar, {
    "time": Entry(needed="the field of times, as time: at"),
    "bucket": Entry(form=one_of(BUCKETS), needed=f"one of {', '.join(BUCKETS)}"),
    "zone": Entry(usual="UTC"),
    "start": Entry(form=TEXT_FORM, needed='as "2026-11-16"'),
    "end": Entry(form=TEXT_FORM, needed='as "2026-11-23"'),
})


def _read_column(value: Any, path: str) -> Any:
    """Read a column of the key: its name, or a calendar as a block or as its text."""
    is_block = isinstance(value, dict) or (isinstance(value, str) and value.startswith("{"))
    return CALENDAR_BLOCK.read(value, path) if is_block else read_text(value, path)


def _read_columns(value: Any, path: str) -> Any:
    return read_list(value, path, _read_column) if isinstance(value, list) else _read_column(value, path)


KEYS_BLOCK = block_of("Keys", AssumePublicKeys, {
    "field": Entry("the field of the output key, a calendar, or a list of these, such as `[country, page]`: one "
                   "release for each key",
                   Form(Any, _read_columns),
                   needed="the field with the key, such as field: country", option=Option("COLUMN", name="key")),
    "public": Entry(
        "the list of keys to release, known without the data, as `[[NO, web], [SE, web]]` for several fields; each is "
        "released with each bucket of a calendar", ITEMS_FORM,
        option=Option("FILE", "the keys to release: one per line without a header or, for several columns besides "
                      "calendars, a CSV file with a header",
                      "public_keys")),
    "select": Entry("a block: release the keys with enough privacy ids", SELECT_BLOCK),
    "assume_public": Entry("whether to release every key with data; you promise that these keys are public", _TRUE,
                           option=Option(name="assume_public_keys")),
    "opaque_bytes": UNIT_BLOCK.entries["opaque_bytes"],
}, either=(("public", "select", "assume_public"),))

WINDOWS_BLOCK = block_of("Windows", TimeRange, {
    "start": Entry(needed='the start of the first window, such as "2024-01-01"', option=Option("TIME")),
    "end": Entry(needed='the end of the last window, such as "2024-02-01"', option=Option("TIME")),
    "max_releases": Entry(usual="", option=Option()),
})
HORIZON_BLOCK = block_of("Horizon", Horizon, {
    "start": Entry(needed='the start of the first window, such as "2024-01-01"'),
    "window_size": Entry(needed="the window length, such as 1d"),
    "windows": Entry(needed="the number of windows, such as 30"),
    "mechanism": Entry(form=one_of(MECHANISMS)),
})
TIME_BLOCK = block_of("Time", TimeColumn, {
    "field": Entry(needed="the column of times, such as field: day", option=Option("COLUMN", name="time")),
    "every": Entry(
        "the time from one window to the next, such as 1d or 1h; required with `windows`", option=Option("TIME")),
    "window_size": Entry(option=Option("TIME")),
})

CSV_BLOCK = block_of("Csv", Spelling, {
    "thousands": Entry(option=Option("SIGN")),
    "decimal": Entry(option=Option("SIGN")),
    "date_format": Entry(option=Option("FORMAT")),
})
THRESHOLD_BLOCK = block_of("Thresholding", Thresholding, {"delta": Entry(usual="half of `privacy.delta`")})
METHOD_BLOCK = Block("Method", {
    "threshold": Entry(
        "a block: release thresholded counts", THRESHOLD_BLOCK, "threshold: {delta: 1.0e-8}, the only method"),
})

_TYPE = Entry("the type of the values", TEXT_FORM, f"one of {', '.join(each.type_name for each in DOMAINS)}")
_TIMES = {
    "start": Entry(needed='the first time, such as "2024-01-01"'),
    "end": Entry(needed='the last time, such as "2025-01-01"'),
}
DOMAIN_TYPES: Mapping[str, Block] = {
    kind.type_name: Block("Domain", {
        "type": _TYPE, **block_of("Domain", kind, _TIMES if kind is TimestampDomain else {}).entries})
    for kind in DOMAINS
}
"""Settings of each type of domain."""


def _common(name: str) -> Entry:
    """Build the entry of a setting that several types of domain share."""
    found = [block.entries[name] for block in DOMAIN_TYPES.values() if name in block.entries]
    shapes = {entry.form.shape for entry in found if isinstance(entry.form, Form)}
    form = found[0].form if len(shapes) == 1 else NUMBER_FORM if shapes == {int, float} else ITEM_FORM
    return found[0]._replace(form=form, needed=found[0].needed if len(found) == len(DOMAINS) else "")


DOMAIN_BLOCK = Block("Domain", {name: _common(name) for block in DOMAIN_TYPES.values() for name in block.entries})

SPEC_BLOCK = block_of("Sketch", SketchSpec, {
    "kind": Entry(form=_SKETCH),
    "relative_error": Entry("the error as a share of the total weight, in place of `depth` and `width`", NUMBER_FORM,
                            "the error as a share of the total weight, such as 0.001"),
    "failure_probability": Entry("the probability of a larger error; required with `relative_error`", NUMBER_FORM,
                                 "the probability of a larger error, such as 0.01"),
    "item_hash": Entry(form=one_of(ITEM_HASHES)),
    "item_key": Entry("32 hexadecimal digits in quotes, with `blake2b` only", BYTES_FORM),
}, either=(("depth", "relative_error"), ("width", "failure_probability")))
_OF_LEVEL = "bits, sketch, depth, width and share for each level"
LEVEL_BLOCK = block_of("Level", Level, {
    "bits": Entry("bits of the position at this level; at most 20 if the level is sketched", needed=_OF_LEVEL),
    "sketch": Entry(form=one_of(LEVEL_KINDS), needed=_OF_LEVEL),
    **{name: Entry(needed=_OF_LEVEL) for name in ("depth", "width")},
    "share": Entry(form=FRACTION_FORM, needed=_OF_LEVEL),
})
TREE_BLOCK = block_of("Tree", TreeSpec.for_memory, {
    "arity": Entry(
        "children of a node, a power of two; required for `top_k` if more than `memory` and `seed` are given"),
    "sketch": Entry(form=_SKETCH),
    "leaf_share": Entry(form=FRACTION_FORM),
    "levels": Entry("a list of blocks, from the coarsest level to the finest", ListOf(LEVEL_BLOCK),
                    "a list from the coarsest level to the finest"),
    "hash_version": SPEC_BLOCK.entries["hash_version"],
}, either=(("memory", "levels"),), without=("domain",))

_ONE: Mapping[str, Entry] = {
    "kind": Entry(f"the kind of release: {', '.join(f'`{kind}`' for kind in KINDS)}", one_of(tuple(KINDS), ALIASES),
                  f"one of {', '.join(KINDS)}", option=Option("KIND", f"the kind of release: {', '.join(KINDS)}")),
    "item": Entry("the field that is counted", TEXT_FORM, "such as item: city",
                  without=_having("metrics"), option=Option("COLUMN")),
    "domain": Entry(
        "the domain of the values, such as `{type: integer, low: -120, high: 1500}`", DOMAIN_BLOCK,
        "the possible values, such as domain: {type: integer, low: 0, high: 99}", _having("domain"),
        option=Option("DOMAIN", "the possible values, such as '{type: integer, low: 0, high: 99}' or ipv4")),
    "k": Entry("the number of most frequent values", _K, "such as k: 10", _having("k"), option=Option("K")),
    "horizon": Entry(
        "the windows of a release over time, in place of `windows`", HORIZON_BLOCK,
        kinds=tuple(kind for kind, count in KINDS.items() if not count.is_search),
        over_time='the windows, such as `{start: "2024-01-01", window_size: 1d, windows: 30}`'),
    "privacy": Entry(
        "the privacy loss of the release, such as `{epsilon: 2, delta: 1.0e-6}`", PRIVACY_BLOCK,
        "the privacy loss of the release, such as privacy: {epsilon: 2, delta: 1.0e-6}",
        over_time="the privacy loss of all rows of the horizon together"),
    "privacy_unit": Entry(
        "the privacy unit, such as `{privacy_id: person, norm: {max_norm: 10}}`", UNIT_BLOCK,
        "the privacy unit, such as privacy_unit: {privacy_id: person, norm: {max_norm: 10}}, or "
        "privacy_unit: record",
        over_time="the privacy unit, such as "
        "`{privacy_id: person, records: {max_records: 5}, max_windows: 7}`"),
    "spec": Entry("the size of the sketch; the default size if not given", SPEC_BLOCK, kinds=("frequencies",)),
    "listed_items": Entry(
        "a public list of items to count exactly, in place of `spec`", ITEMS_FORM, kinds=("frequencies",),
        option=Option("FILE", "a public list of items to count exactly, one per line", "items")),
    "optimize_for": Entry(
        "the main question, which chooses the layout: `ranks` for quantiles, `ranges`, or `values` for the counts of "
        "single values",
        one_of(("ranks", "ranges", "values")), kinds=("quantiles",), usual="ranks"),
    "layout": Entry(
        "`histogram`, the default for up to 256 values if Laplace noise is more accurate; `factorization`, a "
        "square-root factorization, the default for up to 2**32 values without an L2 norm or a horizon; or `tree`, the "
        "default otherwise",
        one_of(("factorization", "histogram", "tree")), kinds=("quantiles",)),
    "tree": Entry(
        "the layout of the counters; the default layout if not given", TREE_BLOCK, kinds=_OF_TREES,
        over_time="the layout of the counters of one window; the default layout if not given"),
    "method": Entry(
        "`threshold`, or a block: thresholded counts for numbers too, as for text; without it a histogram or a tree",
        METHOD_BLOCK, kinds=("top_k",), option=Option("METHOD")),
    "variance": Entry("whether to release the variance too", FLAG_FORM, kinds=_having("variance"),
                      option=Option()),
    "weight": Entry("the field with the weight of a record, a whole number; without it each record counts 1", TEXT_FORM,
                    option=Option("COLUMN")),
    "keys": Entry("one release for each of these keys, such as `{public: [NL, BE], field: country}`", KEYS_BLOCK,
                  over_time="a timeline for each of these keys, such as `{public: [NL, BE], field: country}`"),
    "windows": Entry(
        'the windows to release, with data or without, such as `{start: "2024-01-01", end: "2024-02-01"}`',
        WINDOWS_BLOCK),
    "unreadable": Entry("`refuse` a table with many unreadable values, or `drop` them", one_of(UNREADABLE),
                        usual="refuse", option=Option("refuse|drop")),
    "csv": Entry('how CSV files spell numbers and times, such as `{thousands: ",", decimal: "."}`', CSV_BLOCK),
    "data_set": Entry(
        "a description of the data for the privacy statement, at most 500 characters", TEXT_FORM,
        option=Option("TEXT")),
    "date": Entry("whether the privacy statement contains the day of the run; not with `idempotent_noise`", FLAG_FORM,
                  option=Option()),
    "time": Entry(
        "the time column of a table, such as `{field: day, every: 1d}`; not in pipelines, whose elements have "
        "timestamps",
        TIME_BLOCK),
}
METRIC_BLOCK = Block("Metric", {
    "name": Entry("its name in the release", TEXT_FORM, "such as name: delay"),
    "kind": Entry(f"its kind: {', '.join(f'`{kind}`' for kind in METRIC_KINDS)}",
                  one_of(tuple(METRIC_KINDS), ALIASES), f"one of {', '.join(METRIC_KINDS)}"),
    "item": Entry("the field that it counts", TEXT_FORM, "such as item: city", without=("count", "privacy_ids")),
    **{name: _ONE[name]._replace(option=None)
       for name in ("domain", "k", "spec", "listed_items", "optimize_for", "layout", "tree", "variance")},
    "share": Entry("its share of rho; the shares of all metrics sum to 1, and are equal if not given", FRACTION_FORM),
}, (("spec", "listed_items"),))
RELEASE_BLOCK = Block("Release", {
    **_ONE,
    "metrics": Entry(
        "several metrics of the same records, a list of blocks, each with the settings of its kind",
        ListOf(METRIC_BLOCK), "the metrics, such as metrics: [{name: pages, kind: frequencies, item: page}, ...]",
        _having("metrics"), option=Option("METRICS", "the metrics, such as '[{name: visits, kind: count}]'")),
}, (
    ("windows", "horizon"), ("layout", "tree"), ("layout", "optimize_for"), ("tree", "optimize_for"),
    ("tree", "method"), ("spec", "listed_items"),
))

NOISE_BLOCK = Block("IdempotentNoise", {
    "release_id": Entry(
        "the name of the release", TEXT_FORM, "a name for this release of this input, such as visits 2026-11-21"),
    "environment": Entry("the environment variable of the workers with the secret", TEXT_FORM),
    "file": Entry("the file on the workers with the secret", TEXT_FORM),
}, (("environment", "file"),))
EXPECT_BLOCK = block_of("Scale", Scale, {
    "rows": Entry(needed="the approximate number of records, such as rows: 10000000000"),
})
ROWS_BLOCK = Block("Rows", {
    "ask": Entry(
        "a single kind of question, such as `{items: [Oslo, Bern]}`; the output is then rows of answers", ASK_BLOCK),
    "encoding": Entry("the encoding of releases in rows, `bytes` or `base64`", ENCODING_FORM, usual="bytes",
                      over_time="the encoding of the releases, `bytes` or `base64`"),
    "idempotent_noise": Entry(
        "a name for the release and the place of a secret, for runners that repeat work", NOISE_BLOCK),
    "expect": Entry(
        "the approximate size of the input, such as `{rows: 10000000000}`; it divides the work, and changes no result",
        EXPECT_BLOCK),
    "label": Entry("a name for the steps, if another language gives the same name to two transforms with equal "
                   "settings", TEXT_FORM),
})
"""Settings of private transforms in `beam_dpsketch.rows`, in addition to the release settings."""
# fmt: on
