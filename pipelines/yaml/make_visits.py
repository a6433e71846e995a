"""Write the made-up visits that the examples read, as CSV and as Parquet.

python -m pipelines.yaml.make_visits
"""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

FOLDER = Path(__file__).parent
PEOPLE, VISITS = 400, 1200
CITIES = ["Oslo"] * 6 + ["Bern"] * 3 + ["Rome"] * 2 + ["Pisa"]
COUNTRIES = {"Oslo": "NO", "Bern": "CH", "Rome": "IT", "Pisa": "IT"}
DAYS = 4
_START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def visits() -> pa.Table:
    """Return who was where, when (in seconds since 1970), and how many minutes late."""
    cities = [CITIES[number * number % 97 % len(CITIES)] for number in range(VISITS)]
    return pa.table(
        {
            "person": [f"person {number % PEOPLE}" for number in range(VISITS)],
            "city": cities,
            "country": [COUNTRIES[city] for city in cities],
            "delay": [number * 31 % 67 - 7 for number in range(VISITS)],
            "seconds": [int(_START.timestamp()) + number * 9973 % (DAYS * 86_400) for number in range(VISITS)],
        }
    )


def main() -> None:
    """Write both files."""
    pyarrow.csv.write_csv(visits(), FOLDER / "visits.csv", pyarrow.csv.WriteOptions(quoting_style="none"))
    pyarrow.parquet.write_table(visits(), FOLDER / "visits.parquet", compression="zstd")


if __name__ == "__main__":
    main()
