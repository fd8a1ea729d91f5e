"""Tools of one's own: an installed package brings them by entry point, a setting names modules."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

MODULE = """
    from countermand.saga.types import Frozen, ToolCall
    from countermand.tools.tool import tool


    class Nothing(Frozen):
        pass


    @tool(effect="read")
    async def {tool}(call: ToolCall, args: Nothing) -> Nothing:
        "Looks, and does nothing."
        return args
"""

PYPROJECT = """
    [build-system]
    requires = ["hatchling"]
    build-backend = "hatchling.build"

    [project]
    name = "acme-tools"
    version = "1.0"

    [project.entry-points."countermand.tools"]
    acme = "acme_tools.shelves"

    [tool.hatch.build.targets.wheel]
    packages = ["acme_tools"]
"""

LIST = """
    import json
    from countermand.settings import Settings
    from countermand.tools.registry import load_tools
    print(json.dumps(list(load_tools(Settings().tools))))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a package that brings a tool by entry point is installed, and a second module lies beside."""
    source = tmp_path_factory.mktemp("source")
    (source / "acme_tools").mkdir()
    (source / "acme_tools" / "__init__.py").touch()
    (source / "acme_tools" / "shelves.py").write_text(dedent(MODULE.format(tool="look_at_shelf")))
    (source / "pyproject.toml").write_text(dedent(PYPROJECT))
    target = tmp_path_factory.mktemp("site")
    offline = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", target]
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, source], check=True)
    (target / "more_tools.py").write_text(dedent(MODULE.format(tool="look_again")))
    (target / "wrong_tools.py").write_text(dedent(MODULE.format(tool="look_away")).replace('"read"', '"compensable"'))
    return target


def run(installed: Path, *, tools: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed), "COUNTERMAND_TOOLS": tools}
    program = [sys.executable, "-c", dedent(LIST)]
    return subprocess.run(program, capture_output=True, text=True, env=environment, check=False, cwd=installed)


def listed(ran: subprocess.CompletedProcess[str]) -> list[str]:
    assert ran.returncode == 0, ran.stderr
    names: list[str] = json.loads(ran.stdout)
    return names


def test_an_installed_package_brings_its_tools_by_entry_point(installed: Path) -> None:
    assert {"look_at_shelf", "quote_order"} <= set(listed(run(installed)))


def test_the_setting_names_more_modules(installed: Path) -> None:
    names = listed(run(installed, tools="more_tools, acme_tools.shelves"))

    assert {"look_at_shelf", "look_again"} <= set(names)
    assert names.count("look_at_shelf") == 1


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ("no_such_module", "COUNTERMAND_TOOLS names 'no_such_module', which can't be imported: No module named"),
        ("wrong_tools", "tool 'look_away' is compensable but has no compensation"),
    ],
)
def test_a_module_that_brings_no_tools_is_refused_with_its_name(installed: Path, tools: str, message: str) -> None:
    ran = run(installed, tools=tools)

    assert ran.returncode != 0
    assert f"ToolDeclarationError: {message}" in ran.stderr.splitlines()[-1]
