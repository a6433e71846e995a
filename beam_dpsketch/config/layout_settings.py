"""The settings of layouts: domains, sketches and trees."""

from __future__ import annotations

from collections.abc import Mapping

from beam_dpsketch.config.blocks import Block, Entry, Form, ListOf
from beam_dpsketch.config.scalars import BYTES, DURATION, FLAG, FRACTION, ITEM, NUMBER, TEXT, TIME, WHOLE, one_of
from beam_dpsketch.domains import DOMAINS
from beam_dpsketch.hashing.fingerprints import ITEM_HASHES
from beam_dpsketch.sketches.levels import LEVEL_KINDS
from beam_dpsketch.sketches.spec import KINDS as SKETCHES

_SKETCH = one_of(SKETCHES)
_OF_LEVEL = "a level needs bits, sketch, depth, width and share"

_FORMS = {"whole": WHOLE, "byte": WHOLE, "number": NUMBER, "time": TIME, "duration": DURATION}
DOMAIN_TYPES: Mapping[str, Block] = {
    kind.type_name: Block(
        "Domain",
        {
            "type": Entry(TEXT, "", f"one of {', '.join(each.type_name for each in DOMAINS)}"),
            **{name: Entry(_FORMS[each.form], "", each.needed or "") for name, each in kind.settings.items()},
        },
    )
    for kind in DOMAINS
}
"""The settings of each type of domain."""


def _common(name: str) -> Entry:
    """Return a setting of several types of domains, whose form suits all of them."""
    found = [block.entries[name] for block in DOMAIN_TYPES.values() if name in block.entries]
    shapes = {entry.form.shape for entry in found if isinstance(entry.form, Form)}
    form = found[0].form if len(shapes) == 1 else NUMBER if shapes == {int, float} else ITEM
    return found[0]._replace(form=form, needed=found[0].needed if len(found) == len(DOMAINS) else "")


DOMAIN = Block("Domain", {name: _common(name) for block in DOMAIN_TYPES.values() for name in block.entries})

# fmt: off
SPEC = Block("Sketch", {
    "depth": Entry(WHOLE, "rows, 1 to 64"),
    "width": Entry(WHOLE, "columns, 1 to 2^26"),
    "kind": Entry(_SKETCH, "`count_sketch` or `count_min`"),
    "relative_error": Entry(NUMBER, "the error as a share of the total weight, in place of `depth` and `width`",
                            "the error as a share of the total weight, as 0.001"),
    "failure_probability": Entry(NUMBER, "how often the error may be larger; required with `relative_error`",
                                 "how often the error may be larger, as 0.01"),
    "seed": Entry(WHOLE, "chooses the hash functions"),
    "item_hash": Entry(one_of(ITEM_HASHES), "`murmur3`, or `blake2b` where an adversary can choose items"),
    "item_key": Entry(BYTES, "32 hexadecimal digits in quotes, with `blake2b` only"),
    "hash_version": Entry(WHOLE, "the version of the hash, to be sure of it"),
}, (("depth", "relative_error"), ("width", "failure_probability")))
LEVEL = Block("Level", {
    "bits": Entry(WHOLE, "of the position; at most 20 where the level is sketched", _OF_LEVEL),
    "sketch": Entry(
        one_of(LEVEL_KINDS),
        "`exact`, `count_sketch` or `count_min`; or `factor`, for the coarsest of several levels", _OF_LEVEL),
    "depth": Entry(WHOLE, "rows", _OF_LEVEL),
    "width": Entry(WHOLE, "columns", _OF_LEVEL),
    "share": Entry(FRACTION, "the part of rho for the level", _OF_LEVEL),
})
TREE = Block("Tree", {
    "memory": Entry(WHOLE, "bytes, at 4 a counter"),
    "arity": Entry(
        WHOLE, "children of a node, a power of two; required for `top_k` if more than `memory` and `seed` are given"),
    "depth": Entry(WHOLE, "rows of the sketched levels"),
    "sketch": Entry(_SKETCH, "`count_sketch` or `count_min`"),
    "seed": SPEC.entries["seed"],
    "exact_levels": Entry(FLAG, "`false` for the paper's layout"),
    "leaf_share": Entry(FRACTION, "the part of rho for the finest level"),
    "levels": Entry(ListOf(LEVEL), "a list of blocks, from the coarsest level to the finest",
                    "a list from the coarsest level to the finest"),
    "hash_version": SPEC.entries["hash_version"],
}, (("memory", "levels"),))
# fmt: on
