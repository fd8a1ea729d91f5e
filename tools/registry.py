"""The tool registry: our packs, and one's own by entry point or by name."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points

from countermand.saga.errors import ToolDeclarationError
from countermand.saga.tool import AnyTool, declared

PACKS = ("inventory", "payments", "cloud", "dns", "mail", "sagas", "limits")
ENTRY_POINTS = "countermand.tools"
"""The entry-point group by which an installed package brings its tools."""


def load_tools(modules: str = "") -> Mapping[str, AnyTool]:
    """Import every module that declares tools; answers all tools by name.

    Args:
        modules: More modules to import, comma separated (the setting ``tools``).

    Raises:
        ToolDeclarationError: A module can't be imported, or declares a tool wrongly.
    """
    for pack in PACKS:
        import_module(f"countermand.tools.{pack}")
    for entry_point in entry_points(group=ENTRY_POINTS):
        _import(entry_point.value, f"entry point {entry_point.name!r}")
    for module in filter(None, (name.strip() for name in modules.split(","))):
        _import(module, "COUNTERMAND_TOOLS")
    return declared()


def _import(module: str, named_by: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        raise ToolDeclarationError(f"{named_by} names {module!r}, which can't be imported: {error}") from error
