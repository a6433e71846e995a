"""Write the files of the interface again."""

from tests.frozen.interface import FILES, FOLDER

for name, lines in FILES.items():
    (FOLDER / name).write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
