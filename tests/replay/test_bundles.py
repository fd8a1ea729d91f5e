"""The golden bundles: every kind of ending replays with the code of today, arguments and order included."""

from pathlib import Path

import pytest

from countermand.replay.bundle import load
from countermand.replay.check import check
from countermand.tools.registry import load_tools
from tests.replay.make_bundles import ENDINGS, FOLDER

BUNDLES = sorted(FOLDER.glob("*.json"))


def test_every_kind_of_ending_has_its_bundle() -> None:
    assert {path.stem for path in BUNDLES} == {*ENDINGS}


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.stem)
async def test_the_code_of_today_goes_the_recorded_way(path: Path) -> None:
    load_tools()

    partings = await check(load(path))

    assert not partings, "make bundles, if no saga is in flight that the change would break"
