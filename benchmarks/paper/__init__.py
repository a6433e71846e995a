"""The paper's figures and theorems measured with this package; `python -m benchmarks.paper --help`."""
