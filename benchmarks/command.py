"""How every benchmark is run: its options, the lines on where and how it was measured, and the file that it writes."""

from __future__ import annotations

import argparse
import contextlib
import io
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"


class Command(argparse.ArgumentParser):
    """The command line of a benchmark.

    Args:
      file: the `__file__` of its module.
      words: its docstring.
      packages: whose versions are printed.
      parts: what can be named to measure no more than that. Each part has a file of its own.
    """

    def __init__(self, file: str, words: str | None, *packages: str, parts: Sequence[str] = ()) -> None:
        path = Path(file).relative_to(HERE).with_suffix("")
        self._path = path.parent if path.name == "__main__" else path
        self._packages, self._parts = packages, parts
        name = ".".join(("benchmarks", *self._path.parts))
        super().__init__(
            prog=f"python -m {name}", description=words, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        where = Path("benchmarks", "results", self._path)
        if parts:
            self.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(parts)} (default: all)")
        shown = f"folder of the files of all parts (default: {where})" if parts else f"file (default: {where}.txt)"
        self.add_argument("--output", type=Path, help=shown)

    def number(self, name: str, default: Any, words: str, **options: Any) -> None:
        """Add a number, or a text, with a default."""
        options.setdefault("type", type(default))
        self.add_argument(name, default=default, help=f"{words} (default: %(default)s)", **options)

    def trace(self) -> None:
        """Add a file of IPv4 addresses that the user has."""
        self.add_argument("--trace", help="Parquet or CSV file with IPv4 addresses, dotted or integers")
        self.number("--column", "source_ip", "column of the addresses")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Read the command line."""
        arguments = super().parse_args(args, namespace)
        if unknown := set(getattr(arguments, "parts", ())) - set(self._parts):
            self.error(f"unknown part: {', '.join(sorted(unknown))}; one of {', '.join(self._parts)}")
        return arguments

    @contextlib.contextmanager
    def writing(self, arguments: Any, *lines: str, part: str | None = None, more: Sequence[str] = ()) -> Iterator[None]:
        """Print the machine and how it is measured; write what is printed within the block to the file of results.

        Args:
          arguments: of the command line.
          *lines: data, seeds and ranges.
          part: which is measured, if there are parts.
          more: programs that are not Python packages, with versions.
        """
        output = arguments.output or RESULTS / (self._path if part else self._path.with_suffix(".txt"))
        if part:
            output /= f"{part}.txt"
        both = _Both(sys.stdout)
        with contextlib.redirect_stdout(both):
            print(environment(*self._packages), *more, sep=", ")
            print(*lines, sep="\n")
            yield
            judged = [line for line in both.kept.getvalue().splitlines() if line.endswith(("  yes", "  NO"))]
            if judged:
                missed = [line.strip().split("  ")[0] for line in judged if line.endswith("NO")]
                print(f"\nNot met: {'; '.join(missed) or 'nothing'}")
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(both.kept.getvalue(), encoding="utf-8")
        print(f"written: {output}")


class _Both(io.TextIOBase):
    """Standard output, and a copy of what went there."""

    def __init__(self, shown: Any) -> None:
        self.shown, self.kept = shown, io.StringIO()

    def write(self, text: str) -> int:
        self.shown.write(text)
        self.shown.flush()
        return self.kept.write(text)


def environment(*packages: str) -> str:
    """Python, the packages and the platform, in one line."""
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in packages)
    return f"Python {platform.python_version()}, {versions}, {platform.system()} {platform.machine()}"
