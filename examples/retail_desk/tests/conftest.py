"""What the desk's tests share: its database, and how long they may take."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import BaseModel
from sqlalchemy import RowMapping, select

import retail_desk
from countermand.agents.team import Team
from countermand.agents.team_file import load_team
from countermand.testing.contract import Happened
from countermand.tools.registry import load_tools
from retail_desk.database import JOURNAL, PLACE, SHOP, transaction
from retail_desk.desk import key_column, table_of
from retail_desk.stock import Document, fill

from .cases import ALL, SHARED


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="break every plan at every point")


def pytest_report_header() -> str:
    return f"plans: {sum(len(cases.plans) for cases in ALL)}" + (
        "" if SHARED.is_dir() else f" (left out, since there is no {SHARED}: the gold plans)"
    )


def named(found: Iterable[BaseModel]) -> dict[str, object]:
    """Things by the names of their rows, as ``Shop.contents`` has them."""
    rows = ((table_of(type(thing)), thing.model_dump(mode="json")) for thing in found)
    return {f"{table.name} {row[key_column(table).name]}": row for table, row in rows}


class Shop:
    """The database as a test sees it: its rows, and the journal as its books."""

    def fill(self, document: Document) -> None:
        """Empty it and fill it with a shop."""
        fill(document)

    async def rows(self) -> dict[str, object]:
        """All rows but the journal's, as they are: their versions too."""
        return {name: row for name, row in self._rows().items() if not name.startswith("journal ")}

    def contents(self) -> dict[str, object]:
        """What the rows say, whoever wrote them."""
        return {
            name: {column: value for column, value in row.items() if column != "version"}
            for name, row in self._rows().items()
            if not name.startswith("journal ")
        }

    def break_step(self, number: int) -> None:
        """Let the database fail at that step of every saga, when all that it writes is written but not committed."""
        self.write(
            f"CREATE TRIGGER broken BEFORE INSERT ON journal WHEN NEW.step LIKE '%:{number}' AND NEW.direction = 'do' "
            "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )

    def write(self, statement: str) -> None:
        """What another writer does to the database."""
        with transaction() as connection:
            connection.exec_driver_sql(statement)

    async def effects(self) -> list[Happened]:
        with transaction() as connection:
            entries = connection.execute(select(JOURNAL).where(JOURNAL.c.effective).order_by(JOURNAL.c.no))
            return [Happened(entry.key, entry.direction) for entry in entries]

    async def snapshot(self) -> object:
        return await self.rows()

    @asynccontextmanager
    async def outage(self) -> AsyncGenerator[None]:
        self.write("ALTER TABLE journal RENAME TO journal_away")
        try:
            yield
        finally:
            self.write("ALTER TABLE journal_away RENAME TO journal")

    def _rows(self) -> dict[str, RowMapping]:
        with transaction() as connection:
            return {
                f"{table.name} {row[key_column(table).name]}": row
                for table in SHOP.sorted_tables
                for row in connection.execute(select(table)).mappings()
            }


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A database of the test's own, still empty."""
    monkeypatch.setenv(PLACE, str(tmp_path / "shop.db"))
    return Shop()


@pytest.fixture(scope="session")
def team() -> Team:
    """The desk's team."""
    return load_team(str(Path(retail_desk.__file__).with_name("team.yaml")), load_tools("retail_desk.tools"))


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether every plan is broken at every point."""
    return bool(request.config.getoption("--full"))
