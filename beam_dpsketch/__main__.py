"""`python -m beam_dpsketch` is the command `dpsketch`."""

import sys

from beam_dpsketch.cli.main import start

if __name__ == "__main__":
    sys.exit(start())
