"""A copy of the tree in which lines are changed, and programs that run there: our tests and checks, held against it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("agents", "saga", "tools", "cache", "countermand", "tests", "pyproject.toml")


def copy_of_the_tree(into: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, into / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, into / name)


def change(tree: Path, file: str, old: str, new: str) -> None:
    """Put ``new`` in the place of ``old``, which must stand in the file exactly once."""
    code = (tree / file).read_text(encoding="utf-8")
    assert code.count(old) == 1, f"the code has changed: change it anew, {file} has no {old!r}"
    (tree / file).write_text(code.replace(old, new), encoding="utf-8")


def run_in(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python module on the tree's code."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
