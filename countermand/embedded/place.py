"""A supervisor's place in a state folder: the lock, which alone is the truth, and the socket."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from countermand.embedded.errors import EmbeddedError

_LONGEST_SOCKET = 100
"""A unix socket's path has at most 104 bytes on macOS, 108 on Linux, the end's zero byte included."""


def make_folder(folder: Path) -> None:
    """Make the state folder, for its owner only, and its folder of logs.

    Raises:
        EmbeddedError: It can't be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "logs").mkdir(exist_ok=True)
    except OSError as error:
        raise EmbeddedError(
            f"the state folder {folder} can't be made ({error.strerror}): set COUNTERMAND_STATE_FOLDER to another"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EmbeddedError(f"the state folder {folder} can't be written to: set COUNTERMAND_STATE_FOLDER to another")


def socket_path(folder: Path) -> Path:
    """The supervisor's socket; among the temporary files where the state folder's path is too long for one."""
    path = folder / "supervisor.sock"
    if len(os.fsencode(path)) <= _LONGEST_SOCKET:
        return path
    short = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"countermand-{os.getuid()}" / f"{short}.sock"


def make_socket_folder(path: Path) -> None:
    """Make the socket's folder, which must be ours alone.

    Raises:
        EmbeddedError: Somebody else has made it before us.
    """
    path.parent.mkdir(exist_ok=True, mode=0o700)
    if path.parent.stat().st_uid != os.getuid():
        raise EmbeddedError(f"{path.parent} belongs to another user: set COUNTERMAND_STATE_FOLDER to a shorter path")


@contextmanager
def taken(folder: Path) -> Generator[int | None]:
    """Take the folder's lock; yields its file descriptor, or None where another process has it.

    The lock is held until every process that inherited the descriptor has closed it or ended, however it ends.
    """
    with (folder / "supervisor.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield lock.fileno()


def owner(folder: Path) -> int | None:
    """The process id of the supervisor that has the folder (0: not said yet), or None if none has."""
    try:
        lock = (folder / "supervisor.lock").open()
    except (FileNotFoundError, NotADirectoryError):
        return None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(lock.read() or 0)
        return None
