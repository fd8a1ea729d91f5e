"""The verdicts so far; on disk where the matrix runs in full: an interrupted run goes on from there."""

from pathlib import Path

from tests.crash.cases import Case
from tests.crash.matrix import Verdict


class Journal:
    """Verdicts in the order in which they came.

    Args:
        path: Where they are kept; in memory only if None.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self.verdicts = [Verdict.model_validate_json(line) for line in lines]

    def __contains__(self, case: Case) -> bool:
        named = (case.plan, case.step, case.point, case.blow)
        return any((one.plan, one.step, one.point, one.fault) == named for one in self.verdicts)

    def write(self, verdict: Verdict) -> None:
        """Keep a verdict."""
        self.verdicts.append(verdict)
        if self._path is not None:
            with self._path.open("a") as lines:
                lines.write(verdict.model_dump_json() + "\n")

    def clear(self) -> None:
        """Begin anew the next time."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
