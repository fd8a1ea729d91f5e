"""Ends the servers when their supervisor dies without a chance to: it blocks on a pipe that only the supervisor holds.

Run as ``python -m countermand.embedded.watchdog``; a line ``PID`` on standard input is a process group to end.
"""

import os
import signal
import sys
import time
from contextlib import suppress


def main() -> None:
    """Collect process groups until the pipe closes, then end those that are left."""
    groups = [int(line) for line in sys.stdin]
    for sign, grace in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 0.0)):
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, sign)
        time.sleep(grace)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    main()
