"""Ends the servers when their supervisor dies without a chance to: it blocks on a pipe that only the supervisor holds.

Run as ``python -m countermand.embedded.watchdog``, at the head of the process group that the servers are in. It has
inherited the folder's lock: no other supervisor starts before the last server of this one is gone.
"""

import os
import signal
import sys
import time

GRACE = 2.0
"""Seconds that the servers have to stop by themselves."""


def main() -> None:
    """Wait for the pipe's end, then end the group, this process included."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
