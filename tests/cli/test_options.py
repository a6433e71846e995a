"""Options in place of settings: what they mean, what they override, and what is said of mistakes."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pytest

from beam_dpsketch.cli.options import add_settings_options, read_config
from beam_dpsketch.config import read_release
from beam_dpsketch.errors import UsageError
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from tests.cli.consoles import run

FILE = """
kind: top_k
item: source_ip
domain: {type: ipv4}
k: 5
privacy: {epsilon: 2, delta: 1.0e-6}
privacy_unit: {privacy_id: person, norm: {max_norm: 10}, max_windows: 3}
keys: {public: [NL, "NO"], field: country}
"""
PLAIN = """{"kind": "frequencies", "item": "city", "privacy": {"rho": 1}, "privacy_unit": {"privacy_id": "person",
"norm": {"max_norm": 10}}}"""
COUNT = "--kind frequencies --item city"
SPEND = "--epsilon 1 --delta 1e-6"
PEOPLE = "--privacy-id person --max-norm 10"
DAYS = """'{time: at, bucket: day, start: "2026-01-01", end: "2026-01-04"}'"""
TOP = "--kind top_k --item ip --k 3 --rho 1 --domain ipv4"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(FILE)
    Path("plain.json").write_text(PLAIN)
    Path("keys.txt").write_text("NL\nNO\n\nsesame\n")
    Path("secret.bin").write_bytes(b"sesame\xff")
    Path("empty.txt").write_text("\n")
    Path("list.yaml").write_text("[sesame]")
    Path("wrong.yaml").write_text(FILE.replace("max_norm", "max_nrom"))
    Path("broken.yaml").write_text("a: [")


def read(line: str) -> ReleaseSpec:
    parser = argparse.ArgumentParser()
    add_settings_options(parser)
    return read_config(parser.parse_args(shlex.split(line)))


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        (
            f"{COUNT} {SPEND} {PEOPLE}",
            "{kind: frequencies, item: city, privacy: {epsilon: 1, delta: 1e-6}, "
            "privacy_unit: {privacy_id: person, norm: {max_norm: 10}}}",
        ),
        (
            f"{COUNT} --rho 1/2 --privacy-unit record --weight w --max-weight 7",
            "{kind: frequencies, item: city, weight: w, privacy: {rho: 0.5}, privacy_unit: {record: {max_weight: 7}}}",
        ),
        (
            f"{COUNT} --rho 1 --delta 1e-9 --privacy-id p --max-norm auto --max-weight 7 --weight w",
            "{kind: frequencies, item: city, weight: w, privacy: {rho: 1, delta: 1e-9}, "
            "privacy_unit: {privacy_id: p, norm: {auto: {max_weight: 7}}}}",
        ),
        (
            f"{TOP} --privacy-id p --max-records 4 --max-keys 2 --key c --public-keys keys.txt",
            "{kind: top_k, item: ip, k: 3, privacy: {rho: 1}, domain: ipv4, keys: {public: [NL, 'NO', sesame], "
            "field: c}, privacy_unit: {privacy_id: p, records: {max_records: 4, max_keys: 2}}}",
        ),
        (
            f"{COUNT} --rho 1 --privacy-unit record --items keys.txt",
            "{kind: frequencies, item: city, privacy: {rho: 1}, privacy_unit: record, "
            "listed_items: [NL, 'NO', sesame]}",
        ),
        (
            f"{TOP} --privacy-id p --max-norm 4 --method '{{threshold: {{delta: 1e-9}}}}'",
            "{kind: top_k, item: ip, k: 3, privacy: {rho: 1}, domain: ipv4, method: {threshold: {delta: 1e-9}}, "
            "privacy_unit: {privacy_id: p, norm: {max_norm: 4}}}",
        ),
        (
            f"{TOP.replace('--rho 1', '--epsilon 1 --delta 1e-6')} --privacy-id p --max-norm 4 --method threshold",
            "{kind: top_k, item: ip, k: 3, privacy: {epsilon: 1, delta: 1e-6}, domain: ipv4, method: threshold, "
            "privacy_unit: {privacy_id: p, norm: {max_norm: 4}}}",
        ),
        (
            f"{TOP} --privacy-id p --max-norm auto --norm l1",
            "{kind: top_k, item: ip, k: 3, privacy: {rho: 1}, domain: ipv4, "
            "privacy_unit: {privacy_id: p, norm: {auto: {norm: l1}}}}",
        ),
        (
            f"{TOP} --privacy-id p --max-norm 4 --max-keys 2 --key c --select-keys 1e-8",
            "{kind: top_k, item: ip, k: 3, privacy: {rho: 1}, domain: ipv4, keys: {select: {delta: 1e-8}, field: c}, "
            "privacy_unit: {privacy_id: p, norm: {max_norm: 4, max_keys: 2}}}",
        ),
        (
            "--kind quantiles --item d --rho 1 --domain '{type: integer, low: -3, high: 9}' --privacy-unit "
            "record --key c "
            "--assume-public-keys",
            "{kind: quantiles, item: d, privacy: {rho: 1}, domain: {type: integer, low: -3, high: 9}, "
            "privacy_unit: record, "
            "keys: {assume_public: true, field: c}}",
        ),
        (
            f"--kind metrics --metrics '[{{name: n, kind: count}}, {{name: c, kind: frequencies, item: city}}]' "
            f"{SPEND} {PEOPLE}",
            "{kind: metrics, metrics: [{name: n, kind: count}, {name: c, kind: frequencies, item: city}], "
            "privacy: {epsilon: 1, delta: 1e-6}, privacy_unit: {privacy_id: person, norm: {max_norm: 10}}}",
        ),
        ("--config s.yaml", FILE),
        ("--config s.yaml --epsilon 3 --k 7", FILE.replace("epsilon: 2", "epsilon: 3").replace("k: 5", "k: 7")),
        ("--config s.yaml --rho 3", FILE.replace("epsilon: 2", "rho: 3")),
        ("--config plain.json --max-norm auto", PLAIN.replace('{"max_norm": 10}', '"auto"')),
        (
            "--config s.yaml --max-records 4 --max-keys 2",
            FILE.replace("norm: {max_norm: 10}", "records: {max_records: 4, max_keys: 2}"),
        ),
        (
            "--config s.yaml --privacy-unit record --domain '{type: text, max_bytes: 9}'",
            FILE.replace("{privacy_id: person, norm: {max_norm: 10}, max_windows: 3}", "record").replace(
                "{type: ipv4}", "{type: text, max_bytes: 9}"
            ),
        ),
        (
            "--config s.yaml --assume-public-keys --key land",
            FILE[: FILE.index("keys")] + "keys: {assume_public: true, field: land}",
        ),
    ],
)  # fmt: skip
def test_options_mean_settings(line: str, settings: str) -> None:
    assert read(line) == read_release(settings)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "--kind is missing. Set one of frequencies"),
        (
            SPEND,
            "--kind is missing. Set one of frequencies, quantiles, top_k, statistics, metrics, "
            "or use a settings file: --config",
        ),
        (f"{COUNT} {PEOPLE}", "--epsilon and --delta, or --rho, are missing"),
        (f"{COUNT} --epsilon 1 --noise gaussian {PEOPLE}", "--delta is required for Gaussian noise with epsilon"),
        (
            f"{COUNT} {SPEND} --privacy-id p --norm 3",
            "--norm: expected one of l1, l2, got '3' [dpsketch-E805]\n--max-norm is",
        ),
        (f"{COUNT} {SPEND} {PEOPLE} --items none.txt", "--items must be a readable file with one item per line"),
        (f"{TOP} --privacy-id p --max-norm 4 --items keys.txt", "--items: is not a setting of kind top_k"),
        (f"{COUNT} --epsilon 1 {PEOPLE}", "--delta is missing. An L2 norm uses Gaussian noise"),
        (
            f"{COUNT} {SPEND}",
            "--privacy-id is missing. Set the column with the privacy id, or use --privacy-unit record. --max-norm is",
        ),
        (f"{COUNT} {SPEND} --max-norm 3", "--privacy-id is missing"),
        (
            f"{COUNT} {SPEND} --privacy-id p",
            "--max-norm is missing. Set the number of records per privacy id, over all keys, that always count in full"
            ", or use auto",
        ),
        (f"{TOP.replace('--max', '')} --privacy-id p", "--max-norm is missing"),
        (f"{COUNT} {SPEND} {PEOPLE} --privacy-unit record", "--privacy-id and --privacy-unit cannot be combined"),
        (f"{COUNT} {SPEND} {PEOPLE} --max-records 2", "--max-norm and --max-records cannot"),
        (f"{COUNT} {SPEND} {PEOPLE} --rho 1", "--epsilon and --rho cannot be combined"),
        (f"{COUNT} {SPEND} --privacy-unit record --weight w", "--max-weight is missing. With --weight, set"),
        (f"{COUNT} {SPEND} {PEOPLE} --weight w", "--max-weight is missing. With --weight, set"),
        (f"{COUNT} {SPEND} {PEOPLE} --max-weight x", "--max-weight: expected a whole number, got 'x'"),
        (f"{COUNT} {SPEND} --privacy-id p --max-norm -1", "--max-norm: must be finite and greater than 0"),
        (f"{COUNT} {SPEND} {PEOPLE} --domain ipv4", "--domain: is not a setting of kind frequencies"),
        (f"{COUNT} {SPEND} {PEOPLE} --key c", "--key requires --public-keys FILE, --select-keys"),
        (
            f"{COUNT} {SPEND} {PEOPLE} --assume-public-keys --key c --key '{{time: at, bucket: day, start: 2026-01-01, "
            "end: 2026-02-01}'",
            "--key: start: must be in quotes",
        ),
        (f"{COUNT} {SPEND} {PEOPLE} --select-keys 1e-8", "--key is missing"),
        (f"{COUNT} {SPEND} {PEOPLE} --select-keys 1e-8 --key c", "--max-keys is missing. With --select-keys, set"),
        (f"{COUNT} {SPEND} {PEOPLE} --select-keys 1e-8 --assume-public-keys", "--select-keys and --assume-public-keys"),
        (f"{COUNT} {SPEND} {PEOPLE} --public-keys secret.bin", "--public-keys must be a text file in UTF-8"),
        (f"{COUNT} {SPEND} {PEOPLE} --public-keys empty.txt", "--public-keys must be a file with at least one item"),
        (f"{COUNT} {SPEND} {PEOPLE} --key NL --public-keys keys.txt", "--public-keys must be a file without a header"),
        (
            f"{COUNT} {SPEND} {PEOPLE} --key NL --key {DAYS} --public-keys keys.txt",
            "--public-keys must be a file without",
        ),
        (f"{COUNT.replace('city', 'NL')} {SPEND} {PEOPLE} --items keys.txt", "--items must be a file without a header"),
        (f"{TOP} {PEOPLE}", ""),
        ("--kind top_k --k 9", "--item is missing"),
        (
            f"--kind top_k --k 9 --item a {SPEND} {PEOPLE}",
            "--domain is missing. Set the possible values, such as '{type: ",
        ),
        (f"{TOP} {PEOPLE} --k 0", "--k: must be at least 1, got 0"),
        (f"{TOP} {PEOPLE} --domain '{{type: integer, low: 2}}'", "--domain: high: is missing. Set the largest value"),
        (f"{TOP} {PEOPLE} --domain '{{'", "--domain: line 1, column 2"),
        (f"--kind metrics {SPEND} {PEOPLE} --metrics '[{{name: n, kind: top}}]'", "--metrics: kind: expected one of"),
        ("--config s.yaml --kind frequencies", "s.yaml: domain: is not a setting of kind frequencies"),
        ("--config s.yaml --max-keys 1", "--max-keys: is supported only with --select-keys"),
        (
            "--config s.yaml --max-norm auto",
            "s.yaml: privacy_unit.max_windows: must be 1 if the norm is chosen from the data",
        ),
        ("--config s.yaml --select-keys 1e-8", "s.yaml: privacy_unit.norm.max_keys: is required with keys.select"),
        (
            "--config wrong.yaml --k 9",
            "wrong.yaml: privacy_unit.norm.max_nrom: unknown setting. Did you mean 'max_norm'?",
        ),
        ("--config broken.yaml", "broken.yaml: settings: line 1, column 5"),
        ("--config keys.txt", "keys.txt: expected settings such as kind: top_k"),
        ("--config list.yaml", "list.yaml: expected settings such as kind: top_k"),
        ("--config secret.bin", "'secret.bin': expected a settings file in UTF-8"),
    ],
)
def test_mistakes_are_named_by_the_option_or_the_file_and_show_no_key(line: str, message: str) -> None:
    if not message:
        read(line)
        return
    with pytest.raises(UsageError) as caught:
        read(line)
    assert str(caught.value).startswith(message)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "block", ["privacy_unit: [1]", "privacy_unit: {privacy_id: p, norm: 3}", "privacy: 3", "keys: 7"]
)
def test_an_option_does_not_repair_a_block_of_the_file_that_is_none(block: str) -> None:
    name = block.split(":")[0]
    Path("odd.yaml").write_text(
        "\n".join(line for line in FILE.splitlines() if not line.startswith(name)) + f"\n{block}"
    )
    with pytest.raises(UsageError, match="because it is not a block"):
        read("--config odd.yaml --max-norm 7 --rho 1 --key country")


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        ("plan --unit record", "--unit", "--privacy-unit"),
        ("ledger create l.db a --unit record", "--unit", "--privacy-unit"),
        ("run visits.csv --max-per-key 3", "--max-per-key", "--max-records"),
        ("run visits.csv --order=1", "--order", "--norm"),
        ("plan --n 1e6", "--n", "--records"),
        ("plan --wanted-error 0.1", "--wanted-error", "--target-error"),
    ],
)
def test_an_old_option_is_refused_with_the_new_option(line: str, old: str, new: str) -> None:
    code, printed = run(*shlex.split(line))
    assert code == 2
    assert f"unknown option {old}. Did you mean '{new}'?" in printed


def test_an_old_setting_of_a_file_is_refused_with_the_new_setting() -> None:
    Path("old.yaml").write_text(FILE.replace("privacy_unit", "unit"))
    with pytest.raises(UsageError, match=r"^old\.yaml: unit: unknown setting. Did you mean 'privacy_unit'\?"):
        read("--config old.yaml")
