"""Does the code of today still lead a recorded saga the way that it went? Arguments and order of compensations too.

Temporal's Replayer compares the kinds and ids of commands; a refund of another amount replays clean. Here each command
is compared with its arguments.
"""

from collections.abc import Sequence

from pydantic import Field

from countermand.replay.bundle import Bundle, Run
from countermand.replay.commands import Command, recorded_commands, rerun_commands
from countermand.replay.differences import differences
from countermand.saga.types import Frozen

ADVICE = (
    "Sagas in flight would part there, too. Keep the old way behind workflow.patched() until they have ended, or "
    "deploy a pinned worker version, so that they end on the code that began them. If none is in flight, record the "
    "bundle anew."
)


class Parting(Frozen):
    """Where code and history part. ``event`` is the history's; ``field`` is a path into the command's arguments."""

    workflow_id: str
    workflow_type: str
    event: int | None
    command: str
    field: str | None = None
    message: str = Field(description="One line that names the command, the field and what differs.")


async def check(bundle: Bundle, workflows: Sequence[type] = ()) -> list[Parting]:
    """Replay every run of a bundle; answers where each parts from the code of today, nothing where none does.

    Args:
        bundle: The recorded saga.
        workflows: One's own workflows, beside those of ``CountermandPlugin``.

    Raises:
        BundleInvalid: A tool that it calls is not known here.
    """
    for run in bundle.runs:
        await run.steps()
    partings = [await _check_run(run, workflows) for run in bundle.runs]
    return [parting for parting in partings if parting is not None]


async def _check_run(run: Run, workflows: Sequence[type]) -> Parting | None:
    history = run.as_history()
    then = await recorded_commands(history)
    now, complaint = await rerun_commands(history, workflows)
    for number, (recorded, asked) in enumerate(zip(then, now, strict=False), start=1):
        if recorded.names != asked.names:
            return _parting(run, recorded, _instead(asked, then[number:]))
        if recorded.digest != asked.digest:
            # None that an older version did not write at all changes a digest, and is no difference.
            found = next(differences(recorded.given, asked.given), None)
            if found is not None:
                field, was, now_is = found
                return _parting(run, recorded, f"{field} is {was} in the history, {now_is} in the code", field)
    if len(now) < len(then):
        return _parting(run, then[len(now)], "the code does not ask for it")
    closed = bool(then) and then[-1].kind == "result"
    if closed and len(now) > len(then):
        return _parting(run, now[len(then)], "the code asks for it, the history does not have it")
    if complaint is not None:
        message = f"{run.workflow_type} {run.workflow_id}: {' '.join(str(complaint).split())}"
        return Parting(
            workflow_id=run.workflow_id, workflow_type=run.workflow_type, event=None, command="", message=message
        )
    return None


def _instead(asked: Command, later: list[Command]) -> str:
    found = next((command for command in later if command.names == asked.names), None)
    if found is None:
        return f"the code asks for {asked.shown} in its place"
    # A replay ends here, so whether the code would come back to the command can't be seen.
    return (
        f"the code asks for {asked.shown} in its place, which the history has at event {found.event}: "
        "the order changed, or the command is gone"
    )


def _parting(run: Run, command: Command, difference: str, field: str | None = None) -> Parting:
    at = f" at event {command.event}" if command.event else " at its end"
    return Parting(
        workflow_id=run.workflow_id,
        workflow_type=run.workflow_type,
        event=command.event,
        command=command.shown,
        field=field,
        message=f"{run.workflow_type} {run.workflow_id} parts{at}, {command.shown}: {difference}",
    )
