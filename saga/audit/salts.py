"""The salts of sagas, kept apart from the log: who deletes one makes the saga's digests unprovable for ever."""

import secrets
from pathlib import Path

from sqlalchemy import delete, insert, select

from countermand.saga.audit.database import SaltRow, SaltTables, open_database, writing

_SALT_BYTES = 32


class Salts:
    """One random salt a saga, by path (SQLite) or SQLAlchemy URL.

    A saga that was forgotten and is amended later gets a new salt; what was forgotten stays so.
    """

    def __init__(self, where: str | Path, *, create: bool = True) -> None:
        self._engine = open_database(where, SaltTables, create=create)

    def find(self, saga_id: str) -> bytes | None:
        """The saga's salt, or None when it has none (any more)."""
        with self._engine.connect() as connection:
            return connection.scalar(select(SaltRow.salt).where(SaltRow.saga == saga_id))

    def find_or_make(self, saga_id: str) -> bytes:
        """The saga's salt; the same for all who ask at once."""
        known = self.find(saga_id)
        if known is not None:
            return known
        with writing(self._engine) as connection:
            known = connection.scalar(select(SaltRow.salt).where(SaltRow.saga == saga_id))
            if known is None:
                known = secrets.token_bytes(_SALT_BYTES)
                connection.execute(insert(SaltRow).values(saga=saga_id, salt=known))
            return known

    def forget(self, saga_id: str) -> bool:
        """Delete the saga's salt; whether there was one."""
        with writing(self._engine) as connection:
            deleted = connection.execute(delete(SaltRow).where(SaltRow.saga == saga_id)).rowcount > 0
        if self._engine.dialect.name == "sqlite":
            # The write-ahead log still holds the page as it was; emptied, the salt is on no disk.
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        return deleted

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()
