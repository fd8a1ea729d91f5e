"""What ``saga_env`` gives a test: plans and conversations on real servers."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta

from temporalio.client import Client, WorkflowHandle, WorkflowHistory
from temporalio.worker import Replayer

from countermand.agents.agent_saga import AgentSaga, TurnResult
from countermand.agents.chat import Chat
from countermand.agents.session import Say, TurnTicket
from countermand.agents.team import ORDER_TEAM, Team
from countermand.agents.turn import TurnInput
from countermand.plugin import CountermandPlugin
from countermand.saga import Plan, PlannedSaga, PlannedStep, SagaOptions, SagaReport
from countermand.testing.worlds import WorldUnderTest

Steps = PlannedStep | tuple[PlannedStep, ...]


@dataclass(frozen=True)
class SagaEnv:
    """A Temporal server, a worker and a world.

    Attributes:
        client: Connected, with ``CountermandPlugin``.
        task_queue: The test's own.
        world: Empty at the test's begin.
        visibility: Whether the server knows the search attribute ``SagaState``.
        audit: Whether the worker serves an audit log.
    """

    client: Client
    task_queue: str
    world: WorldUnderTest
    visibility: bool = True
    audit: bool = False
    started: list[str] = field(default_factory=list)

    @property
    def options(self) -> SagaOptions:
        """Options of sagas that run here."""
        return SagaOptions(visibility=self.visibility, audit=self.audit)

    def new_id(self, kind: str = "saga") -> str:
        """An id that no other test has; its history is replayed at the end."""
        name = f"{kind}-{uuid.uuid4().hex[:12]}"
        self.started.append(name)
        return name

    async def start_plan(
        self, *steps: PlannedStep | tuple[PlannedStep, ...], run_timeout: timedelta | None = None
    ) -> WorkflowHandle[PlannedSaga, SagaReport]:
        """Start a fixed plan."""
        plan = Plan(steps=steps, options=self.options)
        return await self.client.start_workflow(
            PlannedSaga.run, plan, id=self.new_id(), task_queue=self.task_queue, run_timeout=run_timeout
        )

    async def run_plan(self, *steps: Steps) -> SagaReport:
        """Run a fixed plan to its end."""
        return await (await self.start_plan(*steps)).result()

    async def start_turn(
        self, text: str, *, model: str = "stub", team: Team = ORDER_TEAM, tenant: str = "default"
    ) -> WorkflowHandle[AgentSaga, TurnResult]:
        """Start one turn without a session, confirmed in advance."""
        turn = TurnInput(text=text, model=model, team=team, tenant=tenant, confirmed=True, options=self.options)
        return await self.client.start_workflow(AgentSaga.run, turn, id=self.new_id(), task_queue=self.task_queue)

    def chat(self, *, model: str = "stub", team: Team = ORDER_TEAM) -> "Talk":
        """A new conversation."""
        session = self.new_id("session")
        return Talk(
            Chat(
                client=self.client,
                task_queue=self.task_queue,
                session=session,
                model=model,
                team=team,
                options=self.options,
            )
        )

    async def replay(self) -> None:
        """Replay the histories of all that was started here, with no workflow cached."""
        for workflow_id in self.started:
            history = await self.client.get_workflow_handle(workflow_id).fetch_history()
            await _replayer().replay_workflow(history)


@dataclass(frozen=True)
class Talk:
    """A conversation in a test."""

    chat: Chat

    async def say(self, text: str, *, confirmed: bool = False, turn_id: str | None = None) -> TurnResult:
        """Say something, and wait for the answer."""
        return await self.chat.result(await self.begin(text, confirmed=confirmed, turn_id=turn_id))

    async def begin(self, text: str, *, confirmed: bool = False, turn_id: str | None = None) -> TurnTicket:
        """Say something, and do not wait."""
        return await self.chat.say(Say(turn_id=turn_id or uuid.uuid4().hex, text=text, confirmed=confirmed))


async def replay_all(client: Client, task_queue: str) -> None:
    """Replay the history of every workflow that ran on a task queue and is closed, with no workflow cached."""

    async def histories() -> AsyncIterator[WorkflowHistory]:
        async for execution in client.list_workflows(f"TaskQueue = '{task_queue}' AND ExecutionStatus != 'Running'"):
            yield await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()

    results = await _replayer().replay_workflows(histories(), raise_on_replay_failure=False)
    for run_id, failure in results.replay_failures.items():
        raise AssertionError(f"the history of run {run_id} does not replay: {failure}") from failure


def _replayer() -> Replayer:
    return Replayer(workflows=[], plugins=[CountermandPlugin()])
