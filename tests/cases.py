"""Cases that nobody in this project wrote: read where they lie, beside the repository, and never committed."""

import json
import os
from pathlib import Path

from pydantic import JsonValue

FOLDER = Path(os.environ.get("COUNTERMAND_CASES") or Path(__file__).parents[2] / "shared" / "cases")
"""Where they lie; tests that import this module are left out, and named, where the folder is absent."""


def read_json(name: str) -> JsonValue:
    """One JSON file, by its path below the folder."""
    return json.loads((FOLDER / name).read_text())


def read_lines(name: str) -> list[dict[str, JsonValue]]:
    """One JSON-lines file, by its path below the folder."""
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines() if line.strip()]
