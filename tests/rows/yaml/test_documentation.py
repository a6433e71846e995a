"""The blocks of `docs/beam_yaml.md` run, and what it says of Beam is so."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from apache_beam.yaml import yaml_provider

from beam_dpsketch.cli.main import PROVIDERS, main
from tests.rows.yaml.running import EXAMPLES, ROOT, run, run_tests

PAGE = (ROOT / "docs" / "beam_yaml.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the examples."""
    (tmp_path / "pipelines").symlink_to(ROOT / "pipelines")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1])
def test_each_pipeline_of_the_page_runs(place: int, folder: Path) -> None:
    """The second one includes the listing of the package."""
    assert len(blocks("yaml")) == 2
    (folder / "pipeline.yaml").write_text(blocks("yaml")[place])
    run(folder / "pipeline.yaml", PROVIDERS=str(PROVIDERS.resolve()))
    assert any((folder / "out").iterdir())


@pytest.mark.slow
def test_the_commands_of_the_page_run(folder: Path) -> None:
    (block,) = blocks("sh")
    install, *commands = (shlex.split(line) for line in block.splitlines())
    assert install[:2] == ["pip", "install"]
    extra = install[2].split("[")[1].rstrip("]")
    assert f'"{extra}": ' in (ROOT / "setup.py").read_text(encoding="utf-8")
    for program, flag, module, file, *options in commands:
        assert [program, flag, module] == ["python", "-m", "apache_beam.yaml.main"]
        path = Path(file.removeprefix("--yaml_pipeline_file="))
        assert options in ([], ["--tests"])
        (run_tests if options else run)(path)


def test_the_path_of_the_listing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"`dpsketch ([\w-]+)` prints where it is", PAGE)
    assert main([command]) == 0
    assert Path(capsys.readouterr().out.strip()).resolve() == PROVIDERS.resolve()


def test_the_page_lists_the_examples() -> None:
    assert {*re.findall(r"\(\.\./pipelines/yaml/(\w+\.yaml)\)", PAGE)} == {file.name for file in EXAMPLES}


def test_a_day_of_beam_has_twelve_hours() -> None:
    """If this fails, Beam was repaired: take the warning out of the page."""
    with contextlib.redirect_stderr(io.StringIO()):
        window = yaml_provider.YamlProviders.WindowInto._parse_window_spec({"type": "fixed", "size": "1d"})
    assert window.windowing.windowfn.size == 12 * 3600
