"""`dpsketch yaml-providers`: where the listing of transforms for Beam YAML is."""

from __future__ import annotations

import argparse
import sys

from beam_dpsketch.cli.faults import DONE
from beam_dpsketch.cli.text import write
from beam_dpsketch.yaml import providers_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Print the path of the listing, which a pipeline includes."""
    write(sys.stdout, f"{providers_path()}\n")
    return DONE
