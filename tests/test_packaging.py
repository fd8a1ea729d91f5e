"""However it is installed, it is one package, and claims one name."""

import hashlib
import json
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
IMPORTS = """
import importlib, json, pathlib
rooms = ["agents", "saga", "tools", "cache", "testing", "cli", "embedded"]
found = [importlib.import_module(f"countermand.{room}") for room in rooms]
print(json.dumps([str(pathlib.Path(module.__file__).parent) for module in found]))
"""


def run(*arguments: str | Path, path: Path | None = None, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(path or ""), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    program = [sys.executable, *arguments]
    ran = subprocess.run(program, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def contents(wheel: Path) -> dict[str, str]:
    """SHA-256 of every module and data file of the package."""
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("countermand/")]
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names}


def in_tree() -> dict[str, str]:
    """The same of the tree, read through the links."""
    files: dict[str, str] = {}
    for folder, folders, names in os.walk(ROOT / "countermand", followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for path in (Path(folder) / name for name in names):
            files[path.relative_to(ROOT).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return files


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A wheel from the tree, and one from the sdist."""
    out = tmp_path_factory.mktemp("dist")
    build = ["-m", "build", "--no-isolation", "--outdir"]
    run(*build, out / "sdist", ROOT, cwd=out)
    run(*build, out / "tree", "--wheel", ROOT, cwd=out)
    return {kind: next((out / kind).glob("*.whl")) for kind in ("sdist", "tree")}


@pytest.mark.parametrize("kind", ["sdist", "tree"])
def test_a_wheel_holds_the_whole_package_and_nothing_else(wheels: dict[str, Path], kind: str) -> None:
    assert contents(wheels[kind]) == in_tree()


def test_the_editable_install_is_this_tree(tmp_path: Path) -> None:
    direct = json.loads(distribution("countermand").read_text("direct_url.json") or "{}")

    assert direct["dir_info"] == {"editable": True}
    assert json.loads(run("-c", IMPORTS, cwd=tmp_path))[0] == str(ROOT / "countermand" / "agents")


def test_installed_beside_openai_agents_both_import(wheels: dict[str, Path], tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", site]
    run(*install, "--no-index", wheels["sdist"], cwd=tmp_path)
    run(*install, "--require-hashes", "-r", ROOT / "requirements" / "beside.txt", cwd=tmp_path)

    rooms: list[str] = json.loads(run("-c", IMPORTS, path=site, cwd=tmp_path))
    assert [Path(room).parent for room in rooms] == [site / "countermand"] * len(rooms)
    said = run("-c", "import agents; print(agents.Agent(name='theirs').name)", path=site, cwd=tmp_path)
    assert said == "theirs\n"


def test_an_install_claims_one_importable_name(wheels: dict[str, Path]) -> None:
    with ZipFile(wheels["sdist"]) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"countermand"}
