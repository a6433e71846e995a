"""The table of settings: what each is, how it is written, and where it may stand. One entry is one setting.

Readers, the schemas and signatures of `beam_dpsketch.rows`, the options of the command and the tables of
`docs/settings.md` are made of it. Marks of code in words are for the page alone. Layouts of counters, domains and kinds
of questions have tables of their own, which are taken in here and in `asking.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from beam_dpsketch.config.asking import ASK
from beam_dpsketch.config.blocks import Block, Entry, Form, ListOf, Option
from beam_dpsketch.config.layout_settings import DOMAIN, SPEC, TREE
from beam_dpsketch.config.scalars import (
    DURATION,
    EXACT,
    FLAG,
    FRACTION,
    ITEMS,
    NUMBER,
    PART,
    TEXT,
    TIME,
    WHOLE,
    one_of,
    read_choice,
)
from beam_dpsketch.kinds import ALIASES, KINDS
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.noise.laws import NOISES
from beam_dpsketch.privacy.norm.bounds import ITEM_SHARES
from beam_dpsketch.privacy.over_time.horizon import MECHANISMS
from beam_dpsketch.privacy.selection import METHODS
from beam_dpsketch.records.unreadable import UNREADABLE

_RELATION = Form(str, read_choice({relation.name.lower(): relation for relation in NeighboringRelation}))
ENCODING = Form(str, read_choice({"bytes": False, "base64": True}))

_OF_TREES = ("quantiles", "top_k")
_DELTA = "take less than 1 / the number of people, as 1.0e-8"
_ASSUMED = "release each key that has data; your word that these may be published"
_KEYS_OF_ID = Option("max_keys", "N", "in how many keys, or texts, an id counts; or votes under --max-norm")


def _having(name: str) -> tuple[str, ...]:
    """Return the kinds of release that take an argument of this name."""
    fields: dict[str, Any] = {kind: dataclasses.fields(count) for kind, count in KINDS.items()}  # type: ignore[arg-type]
    return tuple(kind for kind in KINDS if any(each.init and each.name == name for each in fields[kind]))


_OF_ONE = tuple(kind for kind in KINDS if kind not in _having("metrics"))

# fmt: off
SIDE_COUNTERS = Block("SideCounters", {
    "units": Entry(PART, "the part for the number of people, or of what is protected", usual="1/50"),
    "records": Entry(PART, "the part for the number of records, which are not counted without it"),
    "weight": Entry(PART, "the part for the total weight, unless the counters sum to it as exactly", usual="1/50"),
    "lost": Entry(PART, "the part for what the bounds take away", usual="1/50"),
})
_LOSS: Mapping[str, Entry] = {
    "epsilon": Entry(
        NUMBER, "what the release may spend, above 0; without `delta` it is pure, by Laplace noise",
        option=Option("epsilon", "E")),
    "delta": Entry(
        NUMBER, "less than 1 / the number of people, as 1e-6; next to `rho` it says where statements show epsilon",
        option=Option("delta", "D")),
    "rho": Entry(EXACT, "what the release may spend, above 0, in place of `epsilon`", option=Option("rho", "R")),
    "relation": Entry(_RELATION, "`add_or_remove_one` or `replace_one`", usual="add_or_remove_one"),
    "noise": Entry(
        one_of(tuple(NOISES)), "`gaussian` or `laplace`; without it, what gives the narrower intervals",
        option=Option("noise", "gaussian|laplace")),
}
OF = Block("Whole", {name: entry._replace(option=None) for name, entry in _LOSS.items()}, (("epsilon", "rho"),))
PRIVACY = Block("Privacy", {
    **_LOSS,
    "share": Entry(FRACTION, "the part of `of` that this release takes, above 0 and at most 1, as `1/4`"),
    "of": Entry(OF, "a block with `epsilon`, `delta`, `rho` and `relation`, which hold for all releases together"),
    "side_counters": Entry(SIDE_COUNTERS, "a block, or `none`, which gives all of rho to the sketch"),
    "ledger": Entry(
        TEXT, "the file, or the URL of PostgreSQL, of the ledger that pays each time that the release is made",
        option=Option("ledger", "FILE", "the ledger that pays, a file or a URL of PostgreSQL; with --account")),
    "account": Entry(TEXT, "the account of the ledger; required with `ledger`",
                     option=Option("account", "NAME", "the account of the ledger")),
}, OF.either)

RECORD = Block("Record", {
    "max_weight": Entry(
        WHOLE, "the largest weight of a record; required with `weight`", option=Option("max_weight", "W")),
    "signed": Entry(FLAG, "`true` if negative weights delete"),
})
RECORDS = Block("Records", {
    "max_per_key": Entry(
        WHOLE, "how many records of an id count for each key",
        "how many records of one id count for one key, as 10",
        option=Option("max_per_key", "N", "how many records of an id count, for each key, in place of --max-norm")),
    "max_keys": Entry(WHOLE, "in how many keys, or items one by one, an id counts; required there", option=_KEYS_OF_ID),
    **RECORD.entries,
})
AUTO = Block("Auto", {
    "spend": Entry(EXACT, "the part of rho that pays for the choice, at most 1/2"),
    "optimize_for": Entry(one_of(tuple(ITEM_SHARES)), "`largest` items, or `typical` ones, which are rarer"),
    "item_share": Entry(
        EXACT, "in place of `optimize_for`: which part of a heavy id's length one item that you ask about has"),
    "max_weight": RECORD.entries["max_weight"],
    "max_per_item": Entry(WHOLE, "how much one id may count for one item; 1 counts people"),
    "signed": RECORD.entries["signed"],
    "resource_limit": Entry(WHOLE, "how many different items of an id are kept, to save memory"),
    "order": Entry(
        WHOLE, "`2`, the root of the sum of squares, or `1`, the total weight, which Laplace noise needs",
        option=Option("order", "1|2", "1 lets --max-norm limit the total weight of an id, which Laplace noise needs")),
    "max_keys": Entry(WHOLE, "how many items that are counted one by one an id has", usual="128", option=_KEYS_OF_ID),
})
NORM = Block("Norm", {
    "max_norm": Entry(
        EXACT, "how many records of one item of an id count in full",
        "about as many records as a heavy person has of one item, as max_norm: 10; or norm: auto",
        option=Option(
            "max_norm", "N|auto", "how many records of one item of an id count in full; auto lets the data choose")),
    "max_weight": RECORD.entries["max_weight"],
    "max_per_item": AUTO.entries["max_per_item"],
    "max_keys": Entry(
        WHOLE, "for how many keys an id votes, required with `keys: {select: ...}`; or how many items that are counted "
        "one by one an id has, 128 if not given", option=_KEYS_OF_ID),
    "signed": RECORD.entries["signed"],
    "resource_limit": AUTO.entries["resource_limit"],
    "order": AUTO.entries["order"],
    "auto": Entry(AUTO, "in place of `max_norm`: a block; the data choose the norm"),
}, (("max_norm", "auto"),))
UNIT = Block("Unit", {
    "privacy_id": Entry(
        TEXT, "the field that says whose a record is; all records of an id are protected",
        option=Option("privacy_id", "COLUMN")),
    "norm": Entry(NORM, "a block, or `auto`; scales down what is more"),
    "records": Entry(RECORDS, "a block; drops what is more, at random"),
    "max_windows": Entry(
        WHOLE, "in how many windows each id counts; under `records` without it, windows protect an id within each"),
    "period": Entry(
        DURATION, "the length of time in which `max_windows`, or the norm, holds; without it all of the input"),
    "opaque_bytes": Entry(FLAG, "`true` if a column of eight bytes holds ids, and no addresses of objects"),
    "record": Entry(RECORD, "in place of all others: `{}`, or a block with `max_weight` and `signed`",
                    option=Option("unit", "record", "protect single records, and no person")),
}, (("privacy_id", "record"), ("norm", "records")))

SELECT = Block("Select", {
    "delta": Entry(
        EXACT, "the probability that a key of one person alone is released", _DELTA,
        option=Option("select_keys", "DELTA",
                      "release keys that enough ids are in; the probability that one id shows a key, as 1e-8")),
    "share": Entry(EXACT, "the part of rho for the choice"),
    "min_units": Entry(WHOLE, "how many people must be in a key, at the least"),
    "method": Entry(one_of(METHODS), "`two_rounds` or `gaussian`; `geometric` is of lists of keys alone"),
})
KEYS = Block("Keys", {
    "field": Entry(TEXT, "the field of the output key: one release for each key",
                   "the field that holds the key, as field: country", option=Option("key", "COLUMN")),
    "public": Entry(
        ITEMS, "the list of keys to release, known without the data",
        option=Option("public_keys", "FILE", "the keys to release, one a line, known without the data")),
    "select": Entry(SELECT, "a block: release the keys that enough people are in"),
    "assume_public": Entry(FLAG, f"`true`: {_ASSUMED}", option=Option("assume_public_keys", "", _ASSUMED)),
    "opaque_bytes": Entry(FLAG, "`true` if a column of eight bytes holds keys, and no addresses of objects"),
}, (("public", "select", "assume_public"),))

WINDOWS = Block("Windows", {
    "start": Entry(TIME, "when the first window opens", 'when the first window opens, as "2024-01-01"',
                   option=Option("start", "TIME", "when the first window opens, as 2024-01-01")),
    "end": Entry(TIME, "when the last window closes", 'when the last window closes, as "2024-02-01"',
                 option=Option("end", "TIME", "when the last window closes, as 2024-02-01")),
    "max_releases": Entry(WHOLE, "how many releases there may be, one for each window and listed key", usual="10,000",
                          option=Option("max_releases", "N", "how many releases there may be (10000)")),
})
HORIZON = Block("Horizon", {
    "start": WINDOWS.entries["start"]._replace(words="when the first window opens, in 1970 or later", option=None),
    "window_size": Entry(DURATION, "the length of a window", "the length of a window, as 1d"),
    "windows": Entry(WHOLE, "how many windows there are", "how many windows there are, as 30"),
    "mechanism": Entry(one_of(MECHANISMS), "`binned`, or `tree`, up to 2,048 windows with about twice the error"),
})
TIME_COLUMN = Block("Time", {
    "field": Entry(TEXT, "the column of times: timestamps, dates or ISO text, in UTC without a zone",
                   "the column of times, as field: day", option=Option("time", "COLUMN")),
    "every": Entry(DURATION, "the time from one window to the next; required with `windows`", option=Option(
        "every", "TIME", "the time from one window to the next, as 1d or 1h")),
    "window_size": Entry(DURATION, "how long a window is; longer ones than `every` overlap", usual="every",
                         option=Option("window_size", "TIME", "how long a window is, if it is longer than --every")),
})

CSV = Block("Csv", {
    "thousands": Entry(TEXT, "what separates thousands, as `,` in 1,234", option=Option("thousands", "SIGN")),
    "decimal": Entry(TEXT, "what separates the fraction, as `,` in 12,5", usual=".", option=Option("decimal", "SIGN")),
    "date_format": Entry(TEXT, "how times are written, as `%d/%m/%Y`, or `%s`, seconds since 1970; else in ISO 8601",
                         option=Option("date_format", "FORMAT", "how times are written, as %%d/%%m/%%Y or %%s")),
})
GROUPS = Block("Groups", {
    "delta": Entry(EXACT, "the probability that an item of one person alone shows", usual="half of privacy.delta"),
})
METHOD = Block("Method", {
    "groups": Entry(GROUPS, "a block: count items one by one", "the one method is groups: {delta: 1.0e-8}"),
})

_ONE: Mapping[str, Entry] = {
    "kind": Entry(one_of(tuple(KINDS), ALIASES), f"what is released: {', '.join(f'`{kind}`' for kind in KINDS)}",
                  f"one of {', '.join(KINDS)}", option=Option("kind", "KIND")),
    "item": Entry(TEXT, "the field that is counted", "the field that is counted, as item: city",
                  without=_having("metrics"), option=Option("item", "COLUMN")),
    "domain": Entry(
        DOMAIN, "which values there can be, as `{type: integer, low: -120, high: 1500}`",
        "the values there can be, as domain: {type: integer, low: 0, high: 99}", _having("domain"),
        option=Option(
            "domain", "DOMAIN", "which values there can be, as '{type: integer, low: 0, high: 99}' or ipv4")),
    "k": Entry(WHOLE, "how many values are wanted", "how many values are wanted, as k: 10", _having("k"),
               option=Option("k", "K", "of top_k: how many values are wanted")),
    "horizon": Entry(
        HORIZON, "the windows of a release over time, in place of `windows`",
        kinds=tuple(kind for kind, count in KINDS.items() if not count.is_search),
        over_time='the windows, as `{start: "2024-01-01", window_size: 1d, windows: 30}`'),
    "privacy": Entry(
        PRIVACY, "what the release may spend, as `{epsilon: 2, delta: 1.0e-6}`",
        "what the release may spend, as privacy: {epsilon: 2, delta: 1.0e-6}",
        over_time="what all rows of the horizon may spend together"),
    "unit": Entry(
        UNIT, "whom it protects, as `{privacy_id: person, norm: {max_norm: 10}}`",
        "whom the release protects, as unit: {privacy_id: person, norm: {max_norm: 10}}, or unit: record",
        over_time="whom they protect, as "
        "`{privacy_id: person, records: {max_per_key: 5}, max_windows: 7}`"),
    "spec": Entry(SPEC, "the size of the sketch; without it the usual one", kinds=("frequencies",)),
    "items": Entry(ITEMS, "a public list of items to count exactly, in place of `spec`", kinds=("frequencies",)),
    "optimize_for": Entry(
        one_of(("ranks", "ranges", "values")),
        "what is asked most, which chooses the layout: `ranks`, which quantiles are read from (the default), "
        "`ranges`, or `values`, for how often single values occur",
        kinds=("quantiles",)),
    "layout": Entry(
        one_of(("factor", "histogram", "tree")),
        "`histogram`, the usual one of up to 256 values where Laplace noise suits; `factor`, ranks by a square-root "
        "factor, the usual one of up to 2**32 values where one is possible; or `tree`, which a norm of order 2 needs",
        kinds=("quantiles",)),
    "tree": Entry(
        TREE, "the layout of the counters; without it the usual one", kinds=_OF_TREES,
        over_time="the layout of the counters of one window; without it the usual one"),
    "method": Entry(METHOD, "`groups`, or a block: count numbers one by one, as text is; else a histogram or a tree",
                    kinds=("top_k",)),
    "variance": Entry(
        FLAG, "`true` releases the variance of numbers too",
        kinds=_having("variance"), option=Option("variance", "", "release the variance of numbers too")),
    "weight": Entry(TEXT, "the field that says how much a record counts; without it each counts 1",
                    option=Option("weight", "COLUMN")),
    "keys": Entry(KEYS, "one release for each of these keys, as `{public: [NL, BE], field: country}`",
                  over_time="a timeline for each of these keys, as `{public: [NL, BE], field: country}`"),
    "windows": Entry(
        WINDOWS, 'the windows to release, with data or without, as `{start: "2024-01-01", end: "2024-02-01"}`'),
    "unreadable": Entry(one_of(UNREADABLE), "`refuse` a table with many unreadable values, or `drop` them",
                        usual="refuse", option=Option("unreadable", "refuse|drop")),
    "csv": Entry(CSV, "how CSV files spell numbers and times, as `{thousands: \",\", decimal: \".\"}`"),
    "time": Entry(TIME_COLUMN, "the times of a table, as `{field: day, every: 1d}`; not in pipelines, which have some"),
}
METRIC = Block("Metric", {
    "name": Entry(TEXT, "what it is called in the release", "what it is called in the release, as name: delay"),
    "kind": Entry(one_of(_OF_ONE, ALIASES), f"what is released for it: {', '.join(f'`{kind}`' for kind in _OF_ONE)}",
                  f"one of {', '.join(_OF_ONE)}"),
    "item": Entry(TEXT, "the field that is counted for it", "the field that is counted for it, as item: city"),
    **{name: _ONE[name]._replace(option=None)
       for name in ("domain", "k", "spec", "items", "optimize_for", "layout", "tree", "variance")},
    "share": Entry(FRACTION, "its part of rho; all of them sum to 1, and without any they are equal"),
}, (("spec", "items"),))
RELEASE = Block("Release", {
    **_ONE,
    "metrics": Entry(
        ListOf(METRIC), "several metrics of the same records, a list of blocks, each with the settings of its kind",
        "the metrics, as metrics: [{name: pages, kind: frequencies, item: page}, ...]", _having("metrics")),
}, (
    ("windows", "horizon"), ("layout", "tree"), ("layout", "optimize_for"), ("tree", "optimize_for"),
    ("tree", "method"), ("spec", "items"),
))

IDEMPOTENT_NOISE = Block("IdempotentNoise", {
    "release_id": Entry(TEXT, "names the release", "names this release of this input, as visits 2026-11-21"),
    "environment": Entry(TEXT, "the variable of workers that holds the secret"),
    "file": Entry(TEXT, "the file of workers that holds the secret"),
}, (("environment", "file"),))
EXPECT = Block("Scale", {
    "rows": Entry(WHOLE, "about how many records are read", "about how many records are read, as rows: 10000000000"),
    "keys": Entry(WHOLE, "over about how many keys they spread; leave it out if most have one key"),
})
ROWS = Block("Rows", {
    "ask": Entry(ASK, "one kind of question, as `{items: [Oslo, Bern]}`; rows of answers come out"),
    "encoding": Entry(
        ENCODING, "of rows of releases, `bytes` or `base64`", usual="bytes",
        over_time="of the releases, `bytes` or `base64`"),
    "idempotent_noise": Entry(
        IDEMPOTENT_NOISE, "a name for the release and the place of a secret, for runners that repeat work"),
    "expect": Entry(
        EXPECT, "about how large the input is, as `{rows: 10000000000}`; it parts the work, and changes no result"),
    "label": Entry(TEXT, "a name for the steps, where two transforms have equal settings and another language gives "
                          "them one name"),
})
"""The settings that private transforms of `beam_dpsketch.rows` have next to those of a release."""
# fmt: on
