"""The interface is the one in the files: a line that changes or goes breaks a program of somebody."""

import pytest

from tests.frozen.interface import FILES, FOLDER


@pytest.mark.parametrize("name", FILES)
def test_the_interface_is_that_of_its_file(name: str) -> None:
    assert [*FILES[name]()] == (FOLDER / name).read_text(encoding="utf-8").splitlines()
