"""Tables as the code in a message makes them."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc


def code_in(said: str) -> str | None:
    """The code in a message; `None` if it has none."""
    ends = r", because 7 and| for seconds|, or set|, or use|, or convert|\. For money| \[dp", "To drop|Without|Nothing"
    found = re.findall(rf"for example with (.*?)(?:{ends[0]}|\. (?:{ends[1]}))", said)
    return found[0] if found else None


def recast(table: Any, name: str, code: str) -> Any:
    """The table with this column made anew."""
    if isinstance(table, pd.DataFrame):
        return table.assign(**{name: eval(code, {"df": table, "pd": pd})})
    if isinstance(table, pa.Table):
        made = eval(code, {"table": table, "pc": pc, "pa": pa})
        return table.set_column(table.schema.get_field_index(name), name, made)
    import polars as pl

    return table.with_columns(eval(code, {"pl": pl}).alias(name))
