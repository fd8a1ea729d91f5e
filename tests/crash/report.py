"""The matrix's report: every case as JSON, and a page that sums them up."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.crash.cases import all_cases
from tests.crash.matrix import Verdict


def write_report(verdicts: Sequence[Verdict], folder: Path) -> None:
    """Write ``crash-matrix.json`` and ``crash-matrix.md``."""
    ordered = sorted(verdicts, key=lambda one: (one.plan, one.fault, one.point, one.step))
    violations = sum(bool(one.violations) for one in ordered)
    whole = {
        "cases": len(ordered),
        "violations": violations,
        "verdicts": [one.model_dump(mode="json") for one in ordered],
    }
    (folder / "crash-matrix.json").write_text(json.dumps(whole, indent=1) + "\n")
    (folder / "crash-matrix.md").write_text(_page(ordered, violations))


def _page(verdicts: Sequence[Verdict], violations: int) -> str:
    return f"""# The crash matrix

{len(verdicts)} cases of {len(all_cases())}, {violations} violations.

A case is an order (nine steps, seven of which are undone) that is held at a point of a step, and struck there. It
counts only if the world's fault had fired and Temporal listed the call as pending when the blow fell; a case whose
order was elsewhere is run again. Afterwards the world's own ledger says whether what stands is exactly a whole order or
nothing, each effect and each undo happened once, and undos came in reverse order. One held call in three is slow
instead of hanging: it has its effect after its caller gave up, and must find the tombstone.

Made by `make crash`; every case with its seed is in [crash-matrix.json](crash-matrix.json).

## By blow

{_table("blow", [one.fault for one in verdicts], verdicts)}

## By order

{_table("order", [one.plan for one in verdicts], verdicts)}

## By point

{_table("point", [one.point for one in verdicts], verdicts)}

## By step

{_table("step", [str(one.step) for one in verdicts], verdicts)}

Seconds are from the blow to the saga's end, the repair of what was struck included; a call that hangs is given up by
its caller after 5, a lost worker is noticed after 3, and a mail is taken for unsent only when its 10 are over.
"""


def _table(title: str, keys: list[str], verdicts: Sequence[Verdict]) -> str:
    lines = [
        f"| {title} | cases | committed | compensated | violations | median s | most s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for key in sorted(set(keys)):
        mine = [one for one, its in zip(verdicts, keys, strict=True) if its == key]
        ends = Counter(one.end_state for one in mine)
        seconds = [one.seconds for one in mine]
        wrong = sum(bool(one.violations) for one in mine)
        lines.append(
            f"| {key} | {len(mine)} | {ends['committed']} | {ends['compensated']} | {wrong} "
            f"| {median(seconds):.1f} | {max(seconds):.1f} |"
        )
    return "\n".join(lines)
