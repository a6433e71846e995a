"""Text that JSON or YAML would misread, or that would take long to read, is refused with a place."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from beam_dpsketch import ConfigError, config
from beam_dpsketch.config.strict_yaml import StrictLoader
from tests.config.snapshots import message

PLAIN = re.compile(r"[-+]?(0|[1-9][0-9]*|[0-9]+\.[0-9]*([eE][-+][0-9]+)?|\.[0-9]+([eE][-+][0-9]+)?)")
"""How YAML 1.1, YAML 1.2 and people write one and the same number."""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2", "line 2, column 1: a is given twice"),
        ("privacy: {rho: 1, rho: 2}", "line 1, column 19: rho is given twice"),
        ('{"privacy": {"rho": 1, "rho": 2}}', "rho is given twice"),
        ("a: 1\n<<: {b: 2}", "merge keys"),
        ("1: a", "names of settings must be text"),
        ("on: a", "names of settings must be text"),
        ("[a, b]: c", "names of settings must be text"),
        ("item: 010", "reads this as a different number"),
        ("item: 1:30", "reads this as a different number"),
        ("item: 1:30.5", "reads this as a different number"),
        ("item: 0b11", "reads this as a different number"),
        ("item: 0x10", "reads this as a different number"),
        ("privacy: {rho: 1_0}", "line 1, column 16: YAML reads this as a different number"),
        ("privacy: {rho: 1_0.5}", "reads this as a different number"),
        ("privacy: {rho: .5_0}", "reads this as a different number"),
        ("item: 2024-13-45", "Put the value in quotes"),
        ("item: !!timestamp x", "line 1, column 7: tags .!. are not supported"),
        ("item: !!bool x", "tags .!. are not supported"),
        ("item: !!int 7", "tags .!. are not supported"),
        ("item: !!python/object/apply:os.getcwd []", "tags .!. are not supported"),
        ("item: *nowhere", "undefined alias"),
        ("item: {a: [1, 2}", "line 1, column 16"),
        ("a: 1\n\t- c", "line 2, column 1"),
        ("a: 1\n---\na: 2", "another document"),
        ("\0", "special characters are not allowed|not YAML"),
        ('{"a": NaN}', "NaN is not supported"),
        ('{"a": -Infinity}', "-Infinity is not supported"),
        ('{"a": ' + "9" * 5000 + "}", "too many digits"),
        ("a: " + "9" * 5000, "Put the value in quotes"),
        ("a: 0x" + "f" * 5000, "reads this as a different number"),
        ("[" * 10**5, "nested too deeply"),
        ('{"a":' * 10**5, "nested too deeply"),
        ("- " * 10**4 + "a", "nested too deeply"),
        ("a: &a [*a]", "nested more than 16 deep"),
        ("- a", "expected a block with .*, got a list"),
        ("a b", "expected a block with .*, got 'a b'"),
        ("", "expected a block"),
        ("# nothing", "expected a block"),
        ("!!set {a, b}", "line 1, column 1: tags .!. are not supported"),
        ("a: !!set {a, b}", "tags .!. are not supported"),
    ],
    ids=range(40),
)
def test_text_that_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        config.read_release(text)
    assert len(str(caught.value)) < 400


def test_strict_numbers_are_still_numbers() -> None:
    for text, number in (("10", 10), ("-0", 0), ("1000", 1000), ("+7", 7), ("2.5", 2.5), ("1.0e-6", 1e-6)):
        domain = config.read_domain(f"{{type: float, low: -1, high: 2000, step: {text if number > 0 else 1}}}")
        assert number <= 0 or domain.step == number


@pytest.mark.parametrize(
    "value",
    [
        "!!binary AP8=",
        "!!str 010",
        "!!omap [a: b]",
        "!!pairs [a: b]",
        "!!seq [a]",
        "!!null a",
        "!own a",
        "! a",
        "&b !!str a",
    ],
)
@pytest.mark.parametrize("place", ["listed_items: [{}]", "items: {}", "listed_items: [[a, {}]]", "{}: a", "? {}"])
def test_tags_are_refused_wherever_they_are(value: str, place: str) -> None:
    with pytest.raises(ConfigError, match=r"line 1, column \d+: tags \(!\) are not supported. Put text in quotes"):
        config.read_release(place.format(value))


def test_without_pyyaml_json_and_words_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "beam_dpsketch.config.strict_yaml", raising=False)
    assert config.read_domain("ipv4") == config.read_domain('{"type": "ipv4"}')
    assert message("privacy: {rho: 1}") == "settings: expected JSON. To read YAML, install PyYAML [dpsketch-E806]"


def test_lines_that_beam_yaml_notes_are_not_settings() -> None:
    noted = {"rho": 0.1, "__line__": 3, "__uuid__": "x"}
    assert config.read_privacy(noted) == config.read_privacy({"rho": 0.1})
    with pytest.raises(ConfigError, match="__file__: unknown setting"):
        config.read_privacy({"rho": 0.1, "__file__": 3})


@given(text=st.text("0123456789_.:xobeEaf+-", min_size=1, max_size=7))
@example(text="0x1F")
@example(text="-0b1_1")
@example(text="1_000")
@example(text="190:20:30")
@example(text="0o17")
@example(text="+.5e+3")
@example(text="007")
@example(text="00.5")
def test_a_number_is_what_it_looks_like_or_refused(text: str) -> None:
    """Whatever PyYAML takes for a number is read by its decimal digits, or refused; plain decimals are read."""
    try:
        usual = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):  # as of 0x_
        usual = None
    is_number = isinstance(usual, (int, float)) and not isinstance(usual, bool)
    read: Any = "refused"
    with contextlib.suppress(yaml.YAMLError):
        read = yaml.load(text, Loader=StrictLoader)
    if PLAIN.fullmatch(text):
        assert (read, float(usual)) == (usual, float(text))
    elif is_number and usual == usual and abs(usual) != float("inf"):
        assert read == "refused"
