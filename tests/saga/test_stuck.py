from datetime import timedelta

from temporalio import workflow
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from countermand.saga import Plan, SagaReport, SagaState
from countermand.saga.activities import activities_of
from countermand.saga.stuck import stuck_sagas
from countermand.saga.tool import declared
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from countermand.worker import build_worker
from tests.saga.orders import ORDER_PLAN


@workflow.defn(name="PlannedSaga")
class BrokenRelease:
    """A release whose workflow code can't replay what the one before recorded."""

    @workflow.run
    async def run(self, plan: Plan) -> SagaReport:
        raise RuntimeError(f"a bug that came with a release, met by a plan of {len(plan.steps)} steps")


async def test_a_saga_whose_workflow_task_fails_for_ever_is_told_and_goes_on_once_mended(
    saga_env: SagaEnv,
) -> None:
    mended = SagaEnv(client=saga_env.client, task_queue=f"{saga_env.task_queue}-released", world=saga_env.world)
    fault = await saga_env.world.fault("dns.register", "http_503", times=1)
    async with build_worker(mended.client, task_queue=mended.task_queue):
        handle = await mended.start_plan(*ORDER_PLAN)
        await until(lambda: saga_env.world.fired(fault))
    config = saga_env.client.config()
    config["plugins"] = []
    config["data_converter"] = pydantic_data_converter
    broken = Worker(
        Client(**config),
        task_queue=mended.task_queue,
        workflows=[BrokenRelease],
        activities=activities_of(declared().values()),
        workflow_runner=UnsandboxedWorkflowRunner(),
    )

    async def told() -> bool:
        stuck = await stuck_sagas(saga_env.client, patience=timedelta(0))
        return any(line.startswith(f"{handle.id}: its workflow task failed") for line in stuck)

    async with broken:
        await until(told)
    async with build_worker(mended.client, task_queue=mended.task_queue):
        report = await handle.result()

    assert report.state is SagaState.COMMITTED
    assert handle.id not in "".join(await stuck_sagas(saga_env.client, patience=timedelta(0)))
