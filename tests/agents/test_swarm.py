"""A swarm against the world's own ledger: faults, losses, and what its operator asks of it."""

import asyncio
import uuid
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass

import pytest
from temporalio.client import Client, Interceptor, OutboundInterceptor, QueryWorkflowInput
from temporalio.service import RPCError
from typing_extensions import override

from countermand.agents import swarms
from countermand.agents.agent_saga import AgentSaga, TurnResult
from countermand.agents.batch import Line
from countermand.agents.pages import ref_to
from countermand.agents.swarm import Ended, StopAfter, SwarmState, SwarmStatus, saga_id
from countermand.agents.swarms import NoSuchSwarm, SwarmConflict, SwarmSilent
from countermand.saga import SagaState
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.worker import build_worker

ENOUGH = 90.0
"""Seconds within which what a test waits for comes about, on a busy machine."""


def orders(count: int, *, declined: tuple[int, ...] = ()) -> list[Line]:
    """Orders, counted from 1, of which some are paid with a card that is declined."""
    return [
        Line(
            number=number,
            id=f"l{number}",
            text=f"a small environment in eu-west for ada@example.com at h{number}.example.dev"
            + (", card tok_decline" if number in declined else ""),
        )
        for number in range(1, count + 1)
    ]


@dataclass(frozen=True)
class Batch:
    """A batch in a test."""

    env: SagaEnv
    id: str
    lines: list[Line]
    state: SwarmState

    async def begin(self) -> bool:
        return await swarms.begin(self.env.client, self.id, self.lines, self.state, task_queue=self.env.task_queue)

    async def go_on(self, *, retry: bool = False) -> bool:
        return await swarms.go_on(self.env.client, self.id, retry=retry, task_queue=self.env.task_queue)

    async def status(self) -> SwarmStatus:
        return await swarms.status(self.env.client, self.id)

    async def until_ended(self, count: int) -> None:
        """Wait until so many lines have ended."""

        async def ended() -> bool:
            try:
                return (await self.status()).ended >= count
            except SwarmSilent:
                return False

        await until(ended, deadline=ENOUGH)

    async def watched(self) -> tuple[SwarmStatus, list[Ended]]:
        """Watch the swarm to its end."""
        seen: list[Ended] = []
        status: SwarmStatus | None = None
        async with aclosing(swarms.watch(self.env.client, self.id)) as news:
            async for now, ended in news:
                status = now
                seen.extend(ended)
        assert status is not None
        return status, seen

    async def result(self, place: int, attempt: int = 1) -> TurnResult:
        saga = saga_id(self.id, self.lines[place], attempt)
        return await self.env.client.get_workflow_handle_for(AgentSaga.run, saga).result()


def batch(env: SagaEnv, lines: list[Line], **settings: object) -> Batch:
    name = f"batch-{uuid.uuid4().hex[:12]}"
    ref, _ = ref_to(name, lines)
    given: dict[str, object] = {"batch": ref, "model": "stub", "options": env.options}
    return Batch(env, name, lines, SwarmState.model_validate(given | settings))


async def captured(world: WorldUnderTest) -> Counter[str]:
    """The money that stands in the world's payments, by the saga that took it."""
    money: Counter[str] = Counter()
    for payment in (await world.state()).payments.payments:
        if payment.capture_key is not None:
            money[payment.capture_key.rpartition(":")[0]] += payment.amount_captured - payment.amount_refunded
    return money


async def judge(swarm: Batch, status: SwarmStatus, ended: list[Ended]) -> None:
    """Each line ended once; what stands belongs to committed sagas, or is a residual; the sums are the world's."""
    assert sorted(one.place for one in ended) == list(range(len(swarm.lines)))
    assert status.ended == len(swarm.lines)
    assert dict(Counter(one.state for one in ended)) == status.states
    committed: set[str] = set()
    residual: set[str] = set()
    for one in ended:
        saga = (await swarm.result(one.place)).saga
        assert saga.state is one.state
        if saga.state is SagaState.COMMITTED:
            committed.add(saga.id)
        residual.update(left.key for left in saga.residuals)
    world = await swarm.env.world.state()
    orphans = [effect for effect in world.standing if effect.key.rpartition(":")[0] not in committed]
    assert {effect.key for effect in orphans} <= residual
    stands = await captured(swarm.env.world)
    net = Counter(status.taken)
    net.subtract(status.returned)
    assert net["usd"] == sum(stands.values())
    assert {saga for saga, amount in stands.items() if amount} >= committed


async def test_a_batch_with_a_tenth_of_faults_ends_as_the_worlds_ledger_says(saga_env: SagaEnv, full: bool) -> None:
    world = saga_env.world
    every: list[tuple[str, str, dict[str, object]]] = [
        ("inventory.reserve", "decline", {}),
        ("payments.authorize", "decline", {}),
        ("payments.capture", "drop", {"effect": "after"}),
        ("cloud.create_cluster", "http_503", {"effect": "before"}),
        ("cloud.create_cluster", "reset", {"effect": "after"}),
        ("cloud.create_load_balancer", "http_429", {"retry_after_s": 0}),
        ("dns.register", "http_500", {"effect": "after"}),
        ("dns.register", "decline", {}),
        ("mail.send", "decline", {}),
        ("payments.refund", "http_503", {"effect": "before"}),
    ]
    for seed, (operation, kind, how) in enumerate(every):
        await world.fault(operation, kind, probability=0.1, seed=seed, **how)  # pyright: ignore[reportArgumentType]
    swarm = batch(saga_env, orders(2_000 if full else 200), lines_per_run=70)
    await swarm.begin()
    status, ended = await swarm.watched()
    assert all(one.fired for one in await world.faults() if one.operation != "payments.refund")
    assert status.states[SagaState.COMMITTED] > len(swarm.lines) / 3
    assert status.states[SagaState.COMPENSATED] > len(swarm.lines) / 10
    await world.clear_faults()
    await judge(swarm, status, ended)


async def test_a_lost_driver_and_a_lost_worker_change_nothing(temporal_local: Client, world: WorldUnderTest) -> None:
    queue = f"test-{uuid.uuid4().hex[:12]}"
    env = SagaEnv(client=temporal_local, task_queue=queue, world=world)
    swarm = batch(env, orders(30, declined=(3, 17, 28)), concurrency=8, lines_per_run=12)
    async with providers_at(world.url):
        async with build_worker(temporal_local, task_queue=queue):
            await swarm.begin()
            async with aclosing(swarms.watch(env.client, swarm.id)) as news:
                async for status, _ in news:
                    if status.ended >= 12:
                        break
            await swarm.until_ended(18)
        async with build_worker(temporal_local, task_queue=queue):
            assert await swarm.begin()
            status, ended = await swarm.watched()
            await judge(swarm, status, ended)
    assert status.states == {SagaState.COMMITTED: 27, SagaState.COMPENSATED: 3}


async def test_a_terminated_swarm_goes_on_when_its_file_is_run_again(saga_env: SagaEnv) -> None:
    swarm = batch(saga_env, orders(30, declined=(2,)), concurrency=6)
    await swarm.begin()
    await swarm.until_ended(10)
    await swarms.handle_of(saga_env.client, swarm.id).terminate("the operator's mistake")
    with pytest.raises(NoSuchSwarm, match="ended from outside"):
        await swarm.go_on()
    assert await swarm.begin()
    status, ended = await swarm.watched()
    await judge(swarm, status, ended)
    assert status.states == {SagaState.COMMITTED: 29, SagaState.COMPENSATED: 1}


async def test_a_batch_that_is_run_twice_is_done_once(saga_env: SagaEnv) -> None:
    swarm = batch(saga_env, orders(4))
    assert await swarm.begin()
    first, _ = await swarm.watched()
    assert not await swarm.begin()
    assert await swarm.watched() == (first, (await swarm.watched())[1])
    assert (await saga_env.world.done()).count("payments.capture") == 4


async def test_only_failed_lines_are_tried_again_as_sagas_of_their_own(saga_env: SagaEnv) -> None:
    await saga_env.world.fault("payments.capture", "decline", times=2)
    swarm = batch(saga_env, orders(6), concurrency=1)
    await swarm.begin()
    status, _ = await swarm.watched()
    assert status.states == {SagaState.COMMITTED: 4, SagaState.COMPENSATED: 2}
    assert await swarm.go_on(retry=True)
    status, ended = await swarm.watched()
    assert status.states == {SagaState.COMMITTED: 6}
    assert [(one.place, one.attempt) for one in ended[6:]] == [(0, 2), (1, 2)]
    assert sum((await captured(saga_env.world)).values()) == status.taken["usd"] == 6 * 6_700
    assert not await swarm.go_on(retry=True)


async def test_a_swarm_pauses_itself_after_enough_failures_and_goes_on_when_it_is_told(saga_env: SagaEnv) -> None:
    bad = (1, 2, 3, 4)
    swarm = batch(saga_env, orders(10, declined=bad), concurrency=1, stop_after=StopAfter(percent=30))
    await swarm.begin()
    status, ended = await swarm.watched()
    assert status.stopped
    assert status.paused == "3 lines failed"
    assert [one.place for one in ended] == [0, 1, 2]
    assert await swarm.go_on()
    status, _ = await swarm.watched()
    assert not status.stopped
    assert status.states == {SagaState.COMPENSATED: 4, SagaState.COMMITTED: 6}


async def _rests(swarm: Batch) -> bool:
    return not (await swarm.status()).running


async def test_a_paused_swarm_ends_what_runs_and_starts_nothing(saga_env: SagaEnv) -> None:
    swarm = batch(saga_env, orders(12), concurrency=2)
    await swarm.begin()
    await swarm.until_ended(2)
    await swarms.pause(saga_env.client, swarm.id)

    await until(lambda: _rests(swarm))
    status = await swarm.status()
    assert status.paused
    assert 2 <= status.ended < 12
    await swarm.go_on()
    status, _ = await swarm.watched()
    assert status.states == {SagaState.COMMITTED: 12}


class Silences(Interceptor):
    """Counts the queries that nobody answered."""

    def __init__(self) -> None:
        self.count = 0

    @override
    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Counting(next, self)


class _Counting(OutboundInterceptor):
    def __init__(self, after: OutboundInterceptor, silences: Silences) -> None:
        super().__init__(after)
        self._silences = silences

    @override
    async def query_workflow(self, input: QueryWorkflowInput) -> object:
        try:
            return await super().query_workflow(input)
        except RPCError:
            self._silences.count += 1
            raise


async def test_a_driver_waits_for_a_swarm_whose_worker_is_replaced(
    temporal_local: Client, world: WorldUnderTest
) -> None:
    silences = Silences()
    config = temporal_local.config()
    config["interceptors"] = [silences]
    client = Client(**config)
    env = SagaEnv(client=client, task_queue=f"replaced-{uuid.uuid4().hex[:12]}", world=world)
    swarm = batch(env, orders(2))

    async def unanswered() -> bool:
        return silences.count > 0

    async with providers_at(world.url):
        async with build_worker(client, task_queue=env.task_queue):
            await swarm.begin()
            await swarms.pause(client, swarm.id)
            await until(lambda: _rests(swarm))
        going_on = asyncio.create_task(swarm.go_on())
        await until(unanswered, deadline=ENOUGH)
        async with build_worker(client, task_queue=env.task_queue):
            assert await going_on
            status, _ = await swarm.watched()
    assert status.states == {SagaState.COMMITTED: 2}


async def test_a_cancelled_swarm_waits_for_rollbacks_and_can_go_on(saga_env: SagaEnv) -> None:
    world = saga_env.world
    slow = await world.fault("cloud.create_cluster", "slow", delay_s=2.0)
    swarm = batch(saga_env, orders(8), concurrency=3)
    await swarm.begin()

    async def three_provision() -> bool:
        return await world.fired(slow) == 3

    await until(three_provision)
    await swarms.cancel(saga_env.client, swarm.id, "wrong price list")
    status, _ = await swarm.watched()
    assert status.cancelled
    assert status.states == {SagaState.COMPENSATED: 3}
    assert not await world.standing()
    assert (await swarm.result(0)).saga.cancelled
    await world.clear_faults()
    assert await swarm.go_on(retry=True)
    status, _ = await swarm.watched()
    assert status.states == {SagaState.COMMITTED: 8}


async def test_other_lines_under_a_known_id_are_refused_before_anything_starts(saga_env: SagaEnv) -> None:
    swarm = batch(saga_env, orders(2))
    await swarm.begin()
    await swarm.watched()
    other = orders(3)
    ref, _ = ref_to(swarm.id, other)
    state = swarm.state.model_copy(update={"batch": ref})
    with pytest.raises(SwarmConflict, match="has other lines"):
        await swarms.begin(saga_env.client, swarm.id, other, state, task_queue=saga_env.task_queue)


async def test_a_swarm_that_there_is_not_is_told(saga_env: SagaEnv) -> None:
    with pytest.raises(NoSuchSwarm, match="no swarm of batch 'nobody'"):
        await swarms.status(saga_env.client, "nobody")
    with pytest.raises(NoSuchSwarm, match="no swarm of batch 'nobody' runs"):
        await swarms.cancel(saga_env.client, "nobody", "why not")


@pytest.mark.parametrize("name", ["recover", "residuals", "swarm", "page"])
def test_a_batch_is_not_named_as_what_stands_beside_sagas(name: str) -> None:
    with pytest.raises(SwarmConflict, match="taken"):
        swarms.check_batch_id(name)
