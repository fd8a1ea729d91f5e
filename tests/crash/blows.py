"""The blows: what strikes an order that is held. Each proves that it struck."""

from collections.abc import Awaitable, Callable

from temporalio.client import WorkflowExecutionStatus

from countermand.testing.proxy import TcpProxy
from countermand.testing.waiting import until
from tests.crash.cases import Blow
from tests.crash.holding import Held, NotHeld, described
from tests.crash.stage import Stage, passed
from tests.saga.resetting import reset, reset_points


async def strike_all(stage: Stage, blow: Blow, seconds: float) -> None:
    """Strike all that runs, and mend it; ``seconds`` is how long a blow that lasts does."""
    match blow:
        case Blow.KILL_WORKER:
            await stage.kill(stage.worker)
            await stage.start(stage.worker)
        case Blow.STOP_WORKER:
            # Longer than a heartbeat may be missing, so that its calls are taken from it.
            await stage.stop_worker(3 + seconds)
        case Blow.KILL_ALL:
            await stage.kill(stage.worker, stage.temporal, stage.world_server)
            await stage.start(stage.temporal, stage.world_server)
            await stage.start(stage.worker)
        case Blow.RESTART_TEMPORAL:
            await stage.kill(stage.temporal)
            await stage.start(stage.temporal)
        case Blow.CUT_TEMPORAL:
            await _cut(stage.to_temporal, seconds)
        case Blow.CUT_WORLD:
            await _cut(stage.to_world, seconds)
        case Blow.CUT_REDIS:
            await _cut(stage.to_redis, seconds)
        case _:
            raise AssertionError(f"{blow} strikes one order")


async def _cut(proxy: TcpProxy, seconds: float) -> None:
    assert proxy.cut() > 0
    await passed(seconds)
    proxy.heal()


async def strike_one(stage: Stage, held: Held) -> None:
    """Strike one order.

    Raises:
        NotHeld: The blow fell beside it.
    """
    strike: dict[Blow, Callable[[Stage, Held], Awaitable[None]]] = {
        Blow.CANCEL: _cancel,
        Blow.TERMINATE: _terminate,
        Blow.RESET: _reset,
        Blow.TIME_OUT: _time_out,
    }
    await strike[held.case.blow](stage, held)


async def _cancel(stage: Stage, held: Held) -> None:
    await stage.client.get_workflow_handle(held.workflow_id).cancel()


async def _terminate(stage: Stage, held: Held) -> None:
    await stage.client.get_workflow_handle(held.workflow_id).terminate("a blow")


async def _time_out(stage: Stage, held: Held) -> None:
    async def closed() -> bool:
        now = await described(stage, held.workflow_id)
        return now is not None and now.status is not WorkflowExecutionStatus.RUNNING

    await until(closed)
    now = await described(stage, held.workflow_id)
    if now is None or now.status is not WorkflowExecutionStatus.TIMED_OUT:
        raise NotHeld(f"{held.case.name}: it ended before its time was out")


async def _reset(stage: Stage, held: Held) -> None:
    """Reset the held workflow to one of its workflow tasks, drawn."""
    points, run = await reset_points(stage.client, held.workflow_id)
    new = await reset(stage.client, held.workflow_id, run, held.draw.choice(points))
    assert new != run
