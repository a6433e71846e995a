"""YAML 1.1 reader that refuses ambiguous text. The only module that needs PyYAML.

YAML 1.1 reads 010 as 8, 0x10 as 16, 1_0 as 10 and 1:30 as 90, and PyYAML keeps the last of two equal names. Merge keys
can expand a few lines to gigabytes. A tag changes the type of a value. Each of these is an error.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from beam_dpsketch.config.paths import join

_INTEGER, _REAL = re.compile(r"[-+]?(0|[1-9][0-9]*)"), re.compile(r"[^:_]*")
_MERGE, _TEXT = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:str"
_ANOTHER_NUMBER = "YAML reads this as a different number. Put text in quotes, and write numbers in decimal form"


class StrictLoader(yaml.SafeLoader):
    """YAML loader for plain values and decimal numbers, without duplicate names, tags or merge keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if getattr(event, "tag", None) is not None:  # an explicit tag, which standard types do not need
            raise _problem(event, 'tags (!) are not supported. Put text in quotes, and write bytes as {hex: "00ff"}')
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if key.tag == _MERGE:
                raise _problem(key, "merge keys (<<) are not supported. Write out the settings")
            if key.tag != _TEXT or not isinstance(key.value, str):
                raise _problem(key, "names of settings must be text. Put the name in quotes")
            if key.value in seen:
                raise _problem(key, f"{join('', key.value)} is given twice. Remove the duplicate")
            seen.add(key.value)
        return node

    def construct_integer(self, node: Any) -> int:
        if not _INTEGER.fullmatch(str(node.value)):
            raise _problem(node, _ANOTHER_NUMBER)
        return self.construct_yaml_int(node)

    def construct_decimal(self, node: Any) -> float:
        if not _REAL.fullmatch(str(node.value)):
            raise _problem(node, _ANOTHER_NUMBER)
        return self.construct_yaml_float(node)


StrictLoader.add_constructor("tag:yaml.org,2002:int", StrictLoader.construct_integer)
StrictLoader.add_constructor("tag:yaml.org,2002:float", StrictLoader.construct_decimal)


def _problem(node: Any, problem: str) -> Exception:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
