"""What the desk's tests share: its database, and how long they may take."""

from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
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
from retail_desk.stock import fill

from .cases import ALL, OWN, SHARED


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

    async def snapshot(self) -> dict[str, object]:
        """All rows but the journal's, by name, as they are: their versions too."""
        return {**self._rows()}

    def contents(self) -> dict[str, object]:
        """What the rows say, whoever wrote them."""
        return {
            name: {column: value for column, value in row.items() if column != "version"}
            for name, row in self._rows().items()
        }

    @contextmanager
    def broken_at(self, step: int) -> Generator[None]:
        """Inside, the database fails at that step of every saga, when all that it writes is written, not committed."""
        self.write(
            f"CREATE TRIGGER broken_{step} BEFORE INSERT ON journal WHEN NEW.step LIKE '%:{step}' "
            "AND NEW.direction = 'do' BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
        yield
        self.write(f"DROP TRIGGER broken_{step}")

    def write(self, statement: str) -> None:
        """What another writer does to the database."""
        with transaction() as connection:
            connection.exec_driver_sql(statement)

    async def effects(self) -> list[Happened]:
        with transaction() as connection:
            entries = connection.execute(select(JOURNAL).where(JOURNAL.c.effective).order_by(JOURNAL.c.no))
            return [Happened(entry.key, entry.direction) for entry in entries]

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
                if table is not JOURNAL
                for row in connection.execute(select(table)).mappings()
            }


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A database of the test's own, still empty."""
    monkeypatch.setenv(PLACE, str(tmp_path / "shop.db"))
    return Shop()


@pytest.fixture
def own_shop(shop: Shop) -> Shop:
    """The same, with the small set's shop in it."""
    fill(OWN.shop)
    return shop


@pytest.fixture(scope="session")
def team() -> Team:
    """The desk's team."""
    return load_team(str(Path(retail_desk.__file__).with_name("team.yaml")), load_tools("retail_desk.tools"))


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether every plan is broken at every point."""
    return bool(request.config.getoption("--full"))
