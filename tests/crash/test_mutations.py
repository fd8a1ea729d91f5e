"""The matrix is held against itself: recovery's guards are taken out of a copy of the code, and it must fail."""

from pathlib import Path

import pytest

from tests.changed_tree import change, copy_of_the_tree, run_in

Lines = tuple[str, str, str]

SOON: Lines = ("tests/crash/matrix.py", "BOUND_S = 90.0\n", "BOUND_S = 15.0\n")
LATE: Lines = ("tests/crash/holding.py", "    if held.draw.random() < 1 / 3:\n", "    if held.draw.random() < 1:\n")

MUTATIONS: dict[str, tuple[str, str, tuple[Lines, ...]]] = {
    "without cancel handling": (
        "cancel",
        "it needs attention although all is mended",
        (("saga/tasks.py", "            await asyncio.shield(task)\n", "            await task\n"),),
    ),
    "without the janitor": (
        "terminate",
        "I10: no end within",
        (
            SOON,
            (
                "saga/janitor.py",
                "    newest = await client.get_workflow_handle(saga_id).describe()\n    if newest.status",
                "    return False\n    if newest.status",
            ),
        ),
    ),
    "without the tombstone": (
        "terminate",
        "I2: compensated, but there stand",
        (
            LATE,
            ("tools/world/idempotency.py", "    known = _known(call, body.original_key)\n", "    return\n"),
        ),
    ),
}


def test_recovery_without_one_of_its_guards_fails_the_matrix(tmp_path: Path, full: bool) -> None:
    """One guard in CI; ``--full`` takes each out in turn."""
    for name, (blow, wrong, lines) in list(MUTATIONS.items())[: None if full else 1]:
        tree = tmp_path / name.replace(" ", "-")
        tree.mkdir()
        copy_of_the_tree(tree)
        for file, old, new in lines:
            change(tree, file, old, new)

        test = f"tests/crash/test_matrix.py::test_whatever_strikes_an_order_it_ends_whole_or_undone[{blow}]"
        ran = run_in(tree, "pytest", "-q", "-p", "no:cacheprovider", test)

        assert ran.returncode == pytest.ExitCode.TESTS_FAILED, name + ran.stdout + ran.stderr
        assert wrong in ran.stdout, name + ran.stdout
