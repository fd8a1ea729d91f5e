"""A stage for scripted sagas: a Temporal server, a worker with the tests' workflows, and the world."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Replayer, Worker

from countermand.plugin import CountermandPlugin
from countermand.saga import SagaReport
from countermand.saga.types import Frozen
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from tests.saga import hand_written
from tests.saga.judge import ENDS_WITHIN, Judge
from tests.saga.moments import Act, watching
from tests.saga.scripted import Do, Script, ScriptedSaga, UndoTo
from tests.saga.troubled import Effort, Trouble

WORKFLOWS = [ScriptedSaga, *hand_written.WORKFLOWS]

_HEARTBEATS = timedelta(seconds=0.2)


class Call(Frozen):
    """A step of a script, and the trouble that it meets."""

    tool: str
    effort: Effort


Action = Call | tuple[Call, ...] | UndoTo


def call(
    tool: str,
    *forward: Trouble,
    undo: tuple[Trouble, ...] = (),
    probe: tuple[Trouble, ...] = (),
) -> Call:
    """A step of a script, and the trouble that its calls meet, attempt by attempt."""
    return Call(tool=tool, effort=Effort(forward=forward, undo=undo, probe=probe))


@dataclass(frozen=True)
class Played(Judge):
    """A saga that was played to its end; ``reached`` are its moments."""

    reached: list[str]

    @property
    def undone(self) -> list[int]:
        """The steps whose undo had an effect, in the order in which the world saw it."""
        return sorted(self.rows("undo"), key=lambda no: self.rows("undo")[no].seq)


@dataclass(frozen=True)
class Stage:
    """Where scripted sagas are played; each is judged by the invariants, and its history replayed uncached."""

    client: Client
    task_queue: str
    world: WorldUnderTest
    started: list[str] = field(default_factory=list)

    def script(self, *actions: Action, careless: bool = False) -> Script:
        """A script of these actions; calls in one tuple run side by side."""
        return Script(actions=tuple(map(_action, actions)), careless=careless)

    async def play(
        self,
        *actions: Action,
        careless: bool = False,
        cancel_at: tuple[str | int, ...] = (),
        acts: dict[str, Act] | None = None,
    ) -> Played:
        """Play a script to its end, cancelling its workflow at some moments."""
        return await self.play_script(self.script(*actions, careless=careless), cancel_at=cancel_at, acts=acts)

    async def play_script(
        self, script: Script, *, cancel_at: tuple[str | int, ...] = (), acts: dict[str, Act] | None = None
    ) -> Played:
        """As ``play``."""
        return await self._play(ScriptedSaga, script, judged_as=script, cancel_at=cancel_at, acts=acts)

    async def play_workflow(self, hand_written: type, *args: object) -> Played:
        """Run a hand-written workflow that answers with its saga's report."""
        return await self._play(hand_written, *args, judged_as=Script(actions=(), careless=True))

    async def start(self, hand_written: type) -> WorkflowHandle[object, object]:
        """Start a hand-written workflow that answers otherwise."""
        saga_id = self._new_id()
        return await self.client.start_workflow(hand_written.__name__, id=saga_id, task_queue=self.task_queue)

    async def _play(
        self,
        workflow: type,
        *args: object,
        judged_as: Script,
        cancel_at: tuple[str | int, ...] = (),
        acts: dict[str, Act] | None = None,
    ) -> Played:
        saga_id = self._new_id()
        handle = self.client.get_workflow_handle(saga_id, result_type=SagaReport)
        planned: dict[str | int, Act] = dict.fromkeys(cancel_at, partial(handle.cancel, reason="changed my mind"))
        planned.update(acts or {})
        with watching(saga_id, planned) as moments:
            await self.client.start_workflow(workflow.__name__, args=args, id=saga_id, task_queue=self.task_queue)
            report = await asyncio.wait_for(handle.result(), ENDS_WITHIN)
            await moments.end()
        played = Played(report=report, world=await self.world.state(), reached=moments.reached)
        try:
            played.check(judged_as)
        except AssertionError as error:
            error.add_note(f"{report.model_dump_json(indent=1)}\n{moments.reached}\ncancelled at {cancel_at}")
            raise
        return played

    def _new_id(self) -> str:
        self.started.append(f"saga-{uuid.uuid4().hex[:12]}")
        return self.started[-1]

    def worker(self, *, cached: int = 100) -> Worker:
        """One more worker; without cached workflows, one that stops leaves nothing behind in this process."""
        return Worker(
            self.client,
            task_queue=self.task_queue,
            workflows=WORKFLOWS,
            max_cached_workflows=cached,
            max_heartbeat_throttle_interval=_HEARTBEATS,
            default_heartbeat_throttle_interval=_HEARTBEATS,
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        )

    async def replay(self) -> None:
        """Replay the histories of all that was started here since the last time, with no workflow cached."""
        replayer = Replayer(workflows=WORKFLOWS, plugins=[CountermandPlugin()])
        while self.started:
            history = await self.client.get_workflow_handle(self.started.pop()).fetch_history()
            await replayer.replay_workflow(history)


@asynccontextmanager
async def staged(client: Client, world: WorldUnderTest) -> AsyncGenerator[Stage]:
    """A stage on a server; afterwards the histories are replayed."""
    queue = f"stage-{uuid.uuid4().hex[:12]}"
    stage = Stage(client, queue, world)
    async with providers_at(world.url), stage.worker():
        yield stage
    await stage.replay()


def _action(action: Action) -> Do | UndoTo:
    if isinstance(action, UndoTo):
        return action
    calls = (action,) if isinstance(action, Call) else action
    return Do(steps=tuple((one.tool, one.effort.model_dump(mode="json")) for one in calls))
