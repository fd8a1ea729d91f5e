"""A client's side of a swarm: start it, go on with it, watch it, stop it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterable
from datetime import timedelta

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowQueryFailedError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from countermand.agents.batch import Line
from countermand.agents.pages import BatchRef, ref_to, store
from countermand.agents.swarm import Ended, Swarm, SwarmState, SwarmStatus, status_of
from countermand.saga.errors import CountermandError
from countermand.saga.names import AUDIT, RECOVER, RESIDUALS, REVOKE

SWARM = "swarm/"
"""``swarm/<batch>`` runs a batch."""

POLL = timedelta(milliseconds=300)
"""How often a running swarm is asked how far it is."""

_ANSWER_WITHIN = timedelta(seconds=10)
PATIENCE = timedelta(seconds=30)
"""How long a silent swarm is asked again before a driver gives up; what it did by then goes on by itself."""

_TAKEN = {prefix.rstrip("/") for prefix in (SWARM, RECOVER, REVOKE, RESIDUALS, AUDIT)} | {"page"}


class NoSuchSwarm(CountermandError):
    """There is no swarm of that batch, or retention has ended; or it can't go on without its file."""


class SwarmSilent(CountermandError):
    """No worker answers for the swarm; it goes on when one is there."""


class SwarmConflict(CountermandError):
    """The batch's id is taken: by other lines, or by Countermand itself."""


def queue_of_swarms(task_queue: str) -> str:
    """The task queue that a worker serves for swarms beside another one, with slots of its own."""
    return f"{task_queue}-swarm"


def check_batch_id(batch_id: str) -> None:
    """Refuse an id whose lines' sagas would be taken for what stands beside other sagas.

    Raises:
        SwarmConflict: Choose another id.
    """
    if batch_id in _TAKEN:
        raise SwarmConflict(f"batch {batch_id!r}: that name is taken; there are no batches {', '.join(sorted(_TAKEN))}")


async def begin(client: Client, batch_id: str, lines: Iterable[Line], state: SwarmState, *, task_queue: str) -> bool:
    """Run a batch, or go on with it: what was done is not done again. Answers whether a line is left to do.

    Args:
        client: Connected with ``CountermandPlugin``.
        batch_id: Of its lines' sagas, too.
        lines: At least one.
        state: The swarm's settings; see ``first_state``.
        task_queue: Of the swarm and its sagas; see ``queue_of_swarms``.

    Raises:
        SwarmConflict: There is a batch of that id with other lines.
    """
    known = await _patiently_known(client, batch_id)
    if known is not None and known.batch != state.batch:
        raise SwarmConflict(f"batch {batch_id!r} has other lines: choose another --batch, or leave it away")
    _, pages = ref_to(batch_id, lines)
    await store(client, pages, task_queue=task_queue)
    if isinstance(known, SwarmState):
        if _finished(known):
            return False
        state = _to_go_on(known)
    await _start(client, state, task_queue=task_queue)
    return True


async def go_on(client: Client, batch_id: str, *, retry: bool, task_queue: str) -> bool:
    """Go on with a swarm that was paused, stopped or cancelled. Answers whether a line is left to do.

    Args:
        client: Connected with ``CountermandPlugin``.
        batch_id: The batch.
        retry: Try the lines again that were undone.
        task_queue: Of a swarm that must be started anew.

    Raises:
        NoSuchSwarm: There is none, or it was ended from outside.
    """
    known = await _patiently_known(client, batch_id)
    if known is None:
        raise NoSuchSwarm(_gone(batch_id))
    if isinstance(known, SwarmStatus):
        await handle_of(client, batch_id).signal(Swarm.retry if retry else Swarm.resume)
        return True
    state = _to_go_on(known)
    if retry:
        state = state.model_copy(update={"again": (*state.again, *known.failures())})
    if not state.again and _finished(state):
        return False
    await _start(client, state, task_queue=task_queue)
    return True


async def pause(client: Client, batch_id: str) -> None:
    """Start no more lines.

    Raises:
        NoSuchSwarm: None runs.
    """
    await _told(batch_id, handle_of(client, batch_id).signal(Swarm.pause, "paused by an operator"))


async def cancel(client: Client, batch_id: str, reason: str) -> None:
    """Cancel every saga that runs, and start no more.

    Raises:
        NoSuchSwarm: None runs.
    """
    await _told(batch_id, handle_of(client, batch_id).cancel(reason=reason))


async def status(client: Client, batch_id: str) -> SwarmStatus:
    """How far a swarm is, running or ended.

    Raises:
        NoSuchSwarm: There is none.
    """
    known = await _known(client, batch_id)
    if known is None:
        raise NoSuchSwarm(_gone(batch_id))
    return status_of(known) if isinstance(known, SwarmState) else known


async def watch(client: Client, batch_id: str) -> AsyncGenerator[tuple[SwarmStatus, tuple[Ended, ...]]]:
    """How far a swarm is, and the lines that ended since the last time, until it ends or stopped by itself.

    Raises:
        NoSuchSwarm: There is none, or it was ended from outside.
    """
    handle = handle_of(client, batch_id)
    seen = 0
    while True:
        try:
            known = await _known(client, batch_id)
            if isinstance(known, SwarmStatus):
                news = await handle.query(Swarm.ended, seen, rpc_timeout=_ANSWER_WITHIN)
            else:
                news = known.ended[seen:] if known else ()
        except (SwarmSilent, RPCError, WorkflowQueryFailedError):
            # No worker is there, or the swarm is just continuing as new.
            await asyncio.sleep(POLL.total_seconds())
            continue
        if known is None:
            raise NoSuchSwarm(_gone(batch_id))
        seen += len(news)
        now = status_of(known) if isinstance(known, SwarmState) else known
        yield now, news
        if isinstance(known, SwarmState) or (now.stopped and not now.running and seen >= now.attempts):
            return
        await asyncio.sleep(POLL.total_seconds())


async def ended_lines(client: Client, batch_id: str) -> tuple[BatchRef, tuple[Ended, ...]]:
    """The batch, and its lines that have ended so far.

    Raises:
        NoSuchSwarm: There is none.
    """
    known = await _known(client, batch_id)
    if known is None:
        raise NoSuchSwarm(_gone(batch_id))
    if isinstance(known, SwarmState):
        return known.batch, known.ended
    return known.batch, await handle_of(client, batch_id).query(Swarm.ended, 0)


def handle_of(client: Client, batch_id: str) -> WorkflowHandle[Swarm, SwarmState]:
    """The swarm's workflow, the newest run."""
    return client.get_workflow_handle_for(Swarm.run, f"{SWARM}{batch_id}")


async def _patiently_known(client: Client, batch_id: str) -> SwarmStatus | SwarmState | None:
    """What is known of a swarm, asked again for a while: its worker may lag, or be about to be replaced."""
    until = asyncio.get_running_loop().time() + PATIENCE.total_seconds()
    while True:
        try:
            return await _known(client, batch_id)
        except SwarmSilent:
            if asyncio.get_running_loop().time() > until:
                raise
        await asyncio.sleep(POLL.total_seconds())


async def _known(client: Client, batch_id: str) -> SwarmStatus | SwarmState | None:
    """What a swarm says of itself while it runs, its final state afterwards; None where there is neither."""
    handle = handle_of(client, batch_id)
    try:
        now = await handle.describe()
        if now.status is WorkflowExecutionStatus.RUNNING:
            return await handle.query(Swarm.status, rpc_timeout=_ANSWER_WITHIN)
        if now.status is WorkflowExecutionStatus.COMPLETED:
            return await handle.result()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise SwarmSilent(f"nobody answers for batch {batch_id!r}: is a worker running? ({error})") from error
    return None


async def _start(client: Client, state: SwarmState, *, task_queue: str) -> None:
    await client.start_workflow(
        Swarm.run,
        state,
        id=f"{SWARM}{state.batch.id}",
        task_queue=task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )


def _finished(state: SwarmState) -> bool:
    return state.next >= state.batch.lines and not state.again


def _to_go_on(state: SwarmState) -> SwarmState:
    return state.model_copy(update={"paused": "", "stopped": False, "cancelled": False, "failed": 0})


def _gone(batch_id: str) -> str:
    return f"there is no swarm of batch {batch_id!r}, or it was ended from outside: run its file (again) to go on"


async def _told(batch_id: str, telling: Awaitable[None]) -> None:
    try:
        await telling
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise NoSuchSwarm(
            f"no swarm of batch {batch_id!r} runs: 'swarm report {batch_id}' tells how it ended"
        ) from error
