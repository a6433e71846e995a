"""The fields of nested settings, for the schema that Beam YAML shows in its pages and editors.

What arrives is a dict, a row or text, and `beam_dpsketch.config` reads it. No annotation is text here, because Beam
reads them as they are.
"""

from typing import Any, NamedTuple, Optional


class SideCounters(NamedTuple):
    """`side_counters` of privacy."""

    units: Optional[float]
    records: Optional[float]
    weight: Optional[float]
    clipped: Optional[float]


class Whole(NamedTuple):
    """`of`: what a share is taken of."""

    epsilon: Optional[float]
    delta: Optional[float]
    rho: Optional[float]
    relation: Optional[str]


class Privacy(NamedTuple):
    """`privacy`."""

    epsilon: Optional[float]
    delta: Optional[float]
    rho: Optional[float]
    relation: Optional[str]
    share: Optional[float]
    of: Optional[Whole]
    side_counters: Optional[SideCounters]


class Auto(NamedTuple):
    """`auto` of a norm."""

    spend: Optional[float]
    item_share: Optional[float]
    max_weight: Optional[int]
    max_per_item: Optional[int]
    signed: Optional[bool]
    resource_limit: Optional[int]


class Norm(NamedTuple):
    """`norm` of a unit."""

    max_norm: Optional[float]
    max_weight: Optional[int]
    max_per_item: Optional[int]
    max_keys: Optional[int]
    signed: Optional[bool]
    resource_limit: Optional[int]
    auto: Optional[Auto]


class Records(NamedTuple):
    """`records` of a unit."""

    max_contributions_per_partition: int
    max_partitions: Optional[int]
    max_weight: Optional[int]
    signed: Optional[bool]


class Record(NamedTuple):
    """`record` of a unit."""

    max_weight: Optional[int]
    signed: Optional[bool]


class Unit(NamedTuple):
    """`unit`."""

    privacy_id: Optional[str]
    norm: Optional[Norm]
    records: Optional[Records]
    max_windows: Optional[int]
    period: Optional[str]
    record: Optional[Record]


class Select(NamedTuple):
    """`select` of keys."""

    delta: float
    share: Optional[float]
    min_units: Optional[int]
    method: Optional[str]


class Keys(NamedTuple):
    """`keys`."""

    field: str
    public: Optional[list[Any]]
    select: Optional[Select]
    assume_public: Optional[bool]


class Windows(NamedTuple):
    """`windows`."""

    start: str
    end: str


class Horizon(NamedTuple):
    """`horizon`."""

    start: str
    window_size: str
    windows: int
    mechanism: Optional[str]


class Domain(NamedTuple):
    """`domain`."""

    type: str
    low: Optional[float]
    high: Optional[float]
    resolution: Optional[Any]
    start: Optional[str]
    end: Optional[str]
    max_bytes: Optional[int]


class Sketch(NamedTuple):
    """`spec`."""

    depth: Optional[int]
    width: Optional[int]
    kind: Optional[str]
    relative_error: Optional[float]
    failure_probability: Optional[float]
    seed: Optional[int]
    item_hash: Optional[str]
    item_key: Optional[str]
    hash_version: Optional[int]


class Level(NamedTuple):
    """One of `levels` of a tree."""

    bits: int
    sketch: str
    depth: int
    width: int
    share: float


class Tree(NamedTuple):
    """`tree`."""

    memory: Optional[int]
    arity: Optional[int]
    depth: Optional[int]
    width: Optional[int]
    sketch: Optional[str]
    seed: Optional[int]
    exact_levels: Optional[bool]
    leaf_share: Optional[float]
    levels: Optional[list[Level]]
    hash_version: Optional[int]


class Ask(NamedTuple):
    """`ask`."""

    quantiles: Optional[list[float]]
    ranks: Optional[list[Any]]
    ranges: Optional[list[Any]]
    histogram: Optional[list[Any]]
    cdf: Optional[Any]
    items: Optional[list[Any]]
    top_k: Optional[int]
    total: Optional[bool]
    records: Optional[bool]
    units: Optional[bool]
    candidates: Optional[list[Any]]
    confidence: Optional[float]


class IdempotentNoise(NamedTuple):
    """`idempotent_noise`."""

    release_id: str
    environment: Optional[str]
    file: Optional[str]


class Groups(NamedTuple):
    """`groups` of a method."""

    delta: float


class Method(NamedTuple):
    """`method`."""

    groups: Groups
