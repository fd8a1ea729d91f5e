"""Models are asked from a task queue of their own, no faster than its rate, whoever asks."""

import asyncio
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowHandle

from countermand.agents.agent_saga import AgentSaga, TurnResult
from countermand.agents.team import ORDER_TEAM
from countermand.agents.think import queue_of_models
from countermand.agents.turn import TurnInput
from countermand.testing.env import SagaEnv
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.worker import serving

RATE = 10


async def thoughts(turn: WorkflowHandle[AgentSaga, TurnResult]) -> list[tuple[str, datetime]]:
    """From which queue a turn's models were asked, and when."""
    queues: dict[int, str] = {}
    asked: list[tuple[str, datetime]] = []
    for event in (await turn.fetch_history()).events:
        task = event.activity_task_scheduled_event_attributes
        started = event.activity_task_started_event_attributes.scheduled_event_id
        if task.activity_type.name == "think":
            queues[event.event_id] = task.task_queue.name
        elif started in queues:
            asked.append((queues[started], event.event_time.ToDatetime(UTC)))
    return asked


async def test_models_are_asked_from_their_own_queue_no_faster_than_its_rate(
    temporal_local: Client, world: WorldUnderTest
) -> None:
    env = SagaEnv(client=temporal_local, task_queue="rated", world=world)
    models = queue_of_models(env.task_queue)
    greeting = TurnInput(text="hello", model="stub", team=ORDER_TEAM, model_queue=models, options=env.options)
    async with providers_at(world.url), serving(env.client, task_queue=env.task_queue, model_rate=RATE):
        turns = [
            await env.client.start_workflow(AgentSaga.run, greeting, id=env.new_id(), task_queue=env.task_queue)
            for _ in range(3 * RATE)
        ]
        await asyncio.gather(*(turn.result() for turn in turns))
    asked = [one for turn in turns for one in await thoughts(turn)]

    times = sorted(when for _, when in asked)
    assert {queue for queue, _ in asked} == {models}
    assert len(times) == len(turns)
    assert (times[-1] - times[0]).total_seconds() > 1
