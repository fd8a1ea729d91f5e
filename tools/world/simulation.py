"""The running world: its database, its clock, the calls under way; and how one call is executed."""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel
from sqlalchemy.orm import Session, sessionmaker

from countermand.tools.world import catalogue, cloud, dns, faults, idempotency, inventory, mail, payments, settings
from countermand.tools.world.database import Base, open_database
from countermand.tools.world.errors import Refusal
from countermand.tools.world.faults import Fault
from countermand.tools.world.idempotency import Reply
from countermand.tools.world.operations import Call, Operation

PROVIDERS = tuple(module.PROVIDER for module in (payments, inventory, cloud, dns, mail))
OPERATIONS = {operation.name: operation for provider in PROVIDERS for operation in provider.operations}
_SETTLE = {provider.name: provider.settle for provider in PROVIDERS}


class Simulation:
    """The world while it runs.

    ``closing`` is set when the server stops; no call may wait beyond it. ``generation`` counts the resets.
    """

    def __init__(self, db: Path | None) -> None:
        self._engine = open_database(db)
        self._sessions = sessionmaker(self._engine, expire_on_commit=False)
        self._in_flight: dict[tuple[str, str], str] = {}
        self.closing = asyncio.Event()
        self.generation = 0
        with self._sessions.begin() as session:
            if session.get(inventory.StockRow, "small") is None:
                inventory.stock_up(session, catalogue.STOCK)
            self.settings = settings.load(session)
            self._faulty = faults.operations(session)

    def close(self) -> None:
        """Close the database."""
        self._engine.dispose()

    @contextmanager
    def transaction(self, operation: str, key: str = "") -> Generator[Call]:
        """A transaction; it must not await, see ``database``."""
        with self._sessions.begin() as session:
            yield self._call(session, operation, key)

    @contextmanager
    def claim(self, operation: Operation, key: str, fingerprint: str) -> Generator[None]:
        """Mark a call as under way.

        In memory only: effect and answer are one transaction, so of a call that a crash cut off nothing is left.

        Raises:
            Refusal: Another call with the key is under way.
        """
        name = (operation.provider, key)
        if name in self._in_flight:
            same = self._in_flight[name] == fingerprint
            raise idempotency.key_in_use(key) if same else idempotency.key_reused(key)
        self._in_flight[name] = fingerprint
        try:
            yield
        finally:
            del self._in_flight[name]

    def next_fault(self, operation: str, key: str) -> Fault | None:
        """The fault that this call meets; counted for good, whatever becomes of the call."""
        if operation not in self._faulty:
            return None
        with self._sessions.begin() as session:
            return faults.due(session, operation, key)

    @contextmanager
    def changing_faults(self) -> Generator[Call]:
        """A transaction that sets faults or takes them away."""
        with self.transaction("world.faults") as call:
            yield call
            self._faulty = faults.operations(call.session)

    def execute(self, operation: Operation, key: str, body: BaseModel, spoilt: Reply | None = None) -> Reply:
        """Run one call: effect, ledger and stored answer together, or nothing.

        Args:
            operation: What is called.
            key: The idempotency key, empty for a read.
            body: The request.
            spoilt: The answer that a fault gives in place of the true one.
        """
        try:
            with self.transaction(operation.name, key) as call:
                print_ = idempotency.fingerprint(operation, body)
                if operation.effect and (stored := idempotency.recall(call, print_)) is not None:
                    return spoilt or stored
                _SETTLE[operation.provider](call)
                true = _run(call, operation, body)
                if operation.effect:
                    idempotency.store(call, print_, body, true=true, given=spoilt or true)
                return spoilt or true
        except Refusal as refusal:
            return idempotency.refusal_reply(refusal)

    def reset(self) -> None:
        """Empty everything: ledger, tables, keys, faults; the catalogue and the settings are as at first."""
        with self._engine.begin() as connection:
            Base.metadata.drop_all(connection)
            Base.metadata.create_all(connection)
            with Session(connection) as session:
                inventory.stock_up(session, catalogue.STOCK)
                session.flush()
        self.settings, self._faulty = settings.Settings(), set()
        self.generation += 1

    def change_settings(self, changed: settings.Settings) -> None:
        """Set how the world behaves, for good."""
        with self._sessions.begin() as session:
            settings.save(session, changed)
        self.settings = changed

    def settle(self, call: Call) -> None:
        """Let time do its work at all providers."""
        for settle in _SETTLE.values():
            settle(call)

    def _call(self, session: Session, operation: str, key: str) -> Call:
        return Call(
            session=session,
            operation=operation,
            key=key,
            now=time.time() + self.settings.clock_offset_s,
            settings=self.settings,
            in_flight=self._in_flight.keys(),
        )


def _run(call: Call, operation: Operation, body: BaseModel) -> Reply:
    """Run an operation. It refuses before it writes anything, so a refusal leaves nothing but its answer."""
    try:
        idempotency.check_undo(call, operation, body)
        result = operation.run(call, body)
    except Refusal as refusal:
        return idempotency.refusal_reply(refusal)
    idempotency.bury(call, body)
    return idempotency.reply(result)
