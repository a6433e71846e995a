"""Records of people: flights, a made-up web log, and files that a user has."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import csv_batches, flights

SEED = 1
USERS = 100_000
_PAGES = 50_000
_MOST_HITS = 20_000
_FAVOURITES = 30
_VERSES = 30  # lines of a text that make a chapter, where the text has no chapters


class People(NamedTuple):
    """Records, one a row, as whole numbers: the person, the item, and the key, if there are keys."""

    title: str
    units: np.ndarray
    items: np.ndarray
    keys: np.ndarray | None = None

    def __str__(self) -> str:
        """The title, and what bounding depends on."""
        records, items = np.bincount(self.units), len(np.unique(self.items))
        words = f"{self.title}: {len(self.units):,} records, {len(records):,} units, {items:,} items"
        return f"{words}; the largest unit has {records.max():,} records, the median {np.median(records):,.0f}"


def numbered(values: Any) -> np.ndarray:
    """Return values as positions in their distinct values, int64."""
    return np.unique(np.asarray(values), return_inverse=True)[1].astype(np.int64)


@functools.cache
def _departures() -> pa.Table:
    numbers = dict.fromkeys(("distance", "month", "hour"), pa.int64())
    columns = {**flights.COLUMNS, **numbers, "carrier": pa.string(), "flight": pa.string()}
    table = csv_batches.read_csv_table(flights.data_file("flights.csv.zip"), columns)
    return table.filter(table["tailnum"].is_valid())


def flights_by(column: str, by: str | None = None) -> People:
    """Flights of 2013; an aircraft is protected, and null values are left out. Texts are numbered."""
    table = _departures()
    table = table.filter(table[column].is_valid())
    values = table[column].to_numpy()
    items = values.astype(np.int64) if pa.types.is_integer(table[column].type) else numbered(values.astype(str))
    title = f"flights, aircraft protected, {column}" + (f" by {by}" if by else "")
    keys = numbered(table[by].to_numpy().astype(str)) if by else None
    return People(title, numbered(table["tailnum"].to_numpy().astype(str)), items, keys)


def flight_numbers() -> People:
    """Numbers of flights with their carriers, by aircraft."""
    carriers, numbers = (_departures()[name].to_numpy().astype(str) for name in ("carrier", "flight"))
    units = numbered(_departures()["tailnum"].to_numpy().astype(str))
    return People("flights, aircraft protected, number", units, numbered(np.char.add(carriers, numbers)))


def some_of(people: People, count: int, seed: int = SEED) -> People:
    """Return the records of some of the people, chosen at random."""
    chosen = np.random.default_rng(seed).permutation(int(people.units.max()) + 1)[:count]
    kept = np.isin(people.units, chosen)
    return people._replace(units=numbered(people.units[kept]), items=people.items[kept])


def web_log(seed: int = SEED) -> People:
    """Return a made-up web log: Pareto activity (exponent 1.1), Zipf pages (1.05), half of the hits on favourites.

    A user has 2 to 20,000 hits. Half of them go to 1 to 30 favourite pages of the user's own, Zipf (1.0) among them.
    Pages are numbered from the most popular one on.
    """
    generator = np.random.default_rng(seed)
    hits = np.minimum(2 * (generator.pareto(1.1, USERS) + 1), _MOST_HITS).astype(np.int64)
    popularity = np.cumsum(np.arange(1, _PAGES + 1) ** -1.05)
    popularity /= popularity[-1]
    users = np.repeat(np.arange(USERS), hits)
    pages = np.searchsorted(popularity, generator.random(len(users)))
    counts = generator.integers(1, _FAVOURITES + 1, USERS)
    own = generator.random(len(users)) < 0.5
    among = counts[users[own]]
    ranks = np.floor(np.exp(generator.random(len(among)) * np.log(among + 1))).astype(np.int64)
    favourites = np.searchsorted(popularity, generator.random((USERS, _FAVOURITES + 1)))
    pages[own] = favourites[users[own], np.minimum(ranks, _FAVOURITES)]
    return People(f"web log (seed {seed}), user protected, page", users, pages.astype(np.int64))


def purchases(seed: int = 2, people: int = 20_000) -> People:
    """Return made-up purchases: 1 to 20,000 of a buyer, Pareto (exponent 1.1), of 5,000 items, Zipf (1.3)."""
    generator = np.random.default_rng(seed)
    counts = np.minimum(np.ceil(3 * generator.pareto(1.1, people)), 20_000).astype(int)
    buyers = np.repeat(np.arange(people), counts)
    items = numbered(np.minimum(generator.zipf(1.3, len(buyers)), 5000))
    return People(f"purchases (seed {seed}), buyer protected, item", numbered(buyers), items)


def trace_addresses(path: Path) -> People:
    """Source addresses that a sensor saw; a sensor's day is protected."""
    table = pq.read_table(path)
    days = pa.compute.strftime(table["time"], format="%Y-%m-%d").to_numpy().astype(str)
    units = numbered(np.char.add(np.char.add(table["sensor"].to_numpy().astype(str), "|"), days))
    return People("trace, sensor-day protected, source", units, table["source_ip"].to_numpy().astype(np.int64))


def trace_ports(path: Path, by: str | None = None) -> People:
    """Ports that an address tried, by "sensor" or "month" if named; the address is protected."""
    table = pq.read_table(path)
    table = table.filter(table["destination_port"].is_valid())
    table = table.append_column("month", pa.compute.strftime(table["time"], format="%Y-%m"))
    ports = table["destination_port"].to_numpy().astype(np.int64)
    title = "trace, source protected, port" + (f" by {by}" if by else "")
    keys = numbered(table[by].to_numpy().astype(str)) if by else None
    return People(title, numbered(table["source_ip"].to_numpy()), ports, keys)


def manual_words(*, chapters: bool) -> People:
    """Words of the manual of Python, as `text_words`."""
    words = _words("\n".join(importlib.import_module("pydoc_data.topics").topics.values()), chapters=chapters)
    return words._replace(title=words.title.replace("text", "manual", 1))


def text_words(path: Path, *, chapters: bool) -> People:
    """Words of a text; a line that is not empty, or a chapter of 30 of them, is protected."""
    return _words(path.read_text(errors="replace"), chapters=chapters)


def _words(text: str, *, chapters: bool) -> People:
    lines = [line for line in text.splitlines() if line.strip()]
    words = [re.findall(r"[^\W\d_]+", line.lower()) for line in lines]
    sizes = np.array([len(each) for each in words])
    units = np.repeat(np.arange(len(lines)) // (_VERSES if chapters else 1), sizes)
    privacy_unit = f"{_VERSES} lines" if chapters else "line"
    items = numbered([word for each in words for word in each])
    return People(f"text, {privacy_unit} protected, word", numbered(units), items)


def visits(law: str, seed: int = SEED) -> People:
    """Return made-up visits of 20,000 people with a light tail ("geometric", "lognormal" or "poisson"), Zipf items."""
    generator, people = np.random.default_rng(seed), 20_000
    counts = {
        "geometric": lambda: generator.geometric(1 / 8, people),
        "lognormal": lambda: np.ceil(generator.lognormal(1.5, 0.8, people)).astype(np.int64),
        "poisson": lambda: 1 + generator.poisson(10, people),
    }[law]()
    popularity = np.cumsum(1 / np.arange(1, 3001))
    units = np.repeat(np.arange(people), counts)
    items = np.searchsorted(popularity / popularity[-1], generator.random(len(units)))
    return People(f"{law} visits (seed {seed}), person protected, item", units, items.astype(np.int64))


def aircraft_months() -> People:
    """Carriers' flights of 2013 by destination; what an aircraft does in a month is protected."""
    flights = flights_by("dest", "month")
    assert flights.keys is not None
    units = numbered(flights.units * 12 + flights.keys)
    return People("flights, month of an aircraft protected, dest", units, flights.items)


def latencies(seed: int = SEED) -> People:
    """Return made-up latencies: 20,000 users of Pareto activity (exponent 1.1), and the busier a user the slower."""
    generator, users = np.random.default_rng(seed), 20_000
    hits = np.minimum(2 * (generator.pareto(1.1, users) + 1), 5_000).astype(np.int64)
    centres = 4 + 0.35 * np.log(hits) + 0.3 * generator.standard_normal(users)
    units = np.repeat(np.arange(users), hits)
    values = np.exp(centres[units] + 0.6 * generator.standard_normal(len(units)))
    title = f"latencies (seed {seed}), user protected, busy users are slower"
    return People(title, units, np.minimum(values, 99_999).astype(np.int64))
