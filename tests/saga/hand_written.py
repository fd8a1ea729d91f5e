"""Hand-written workflows, and what their authors got wrong."""

import asyncio
from datetime import timedelta
from typing import NoReturn

from temporalio import workflow

from countermand.saga import Saga, SagaReport, SagaRolledBack, transaction

with workflow.unsafe.imports_passed_through():
    from tests.saga.troubled import Effort, hold_money, hold_stock, send_note

OK = Effort()


@workflow.defn
class HasABug:
    """Raises what is not Temporal's own, after its first step."""

    @workflow.run
    async def run(self) -> SagaReport:
        try:
            async with transaction() as saga:
                await saga.run(hold_money, OK)
                raise KeyError("colour")
        except SagaRolledBack as error:
            return error.report


@workflow.defn
class HasABugBehindThePivot:
    """Raises what is not Temporal's own when its mail is out."""

    @workflow.run
    async def run(self) -> SagaReport:
        try:
            async with transaction() as saga:
                await saga.run(hold_money, OK)
                await saga.run(send_note, OK)
                raise KeyError("colour")
        except SagaRolledBack as error:
            return error.report


@workflow.defn
class WaitsForItsOwnActivity:
    """Has an activity of its own within its transaction, which nobody takes up."""

    @workflow.run
    async def run(self) -> SagaReport:
        try:
            async with transaction() as saga:
                await saga.run(hold_money, OK)
                await workflow.execute_activity("nobody's", schedule_to_close_timeout=timedelta(hours=1))
        except SagaRolledBack as error:
            return error.report
        raise AssertionError("the activity ended")


@workflow.defn
class LetsItPass:
    """Has no ``except`` at all."""

    @workflow.run
    async def run(self) -> None:
        async with transaction() as saga:
            await saga.run(hold_stock, OK)
            await saga.run(hold_money, Effort(forward=("refused",)))


@workflow.defn
class ContinuesAsNew:
    """Leaves its open transaction for a new run."""

    @workflow.run
    async def run(self) -> SagaReport:
        try:
            async with transaction() as saga:
                await saga.run(hold_money, OK)
                workflow.continue_as_new()
        except SagaRolledBack as error:
            return error.report


@workflow.defn
class HasTwoTransactions:
    """Begins a second transaction when the first is done."""

    @workflow.run
    async def run(self) -> NoReturn:
        async with transaction() as saga:
            await saga.run(hold_money, OK)
        async with transaction() as saga:
            await saga.run(hold_stock, OK)
        raise AssertionError("the second transaction began")


@workflow.defn
class LaunchesOneOfTwo:
    """Registers two steps, launches the first, and commits or fails."""

    @workflow.run
    async def run(self, commits: bool) -> SagaReport:
        try:
            async with transaction() as saga:
                first, _ = saga.register(hold_money, OK), saga.register(hold_stock, OK)
                saga.launch(first)
                await saga.finish(first)
                if not commits:
                    raise RuntimeError("no")
        except SagaRolledBack as error:
            return error.report
        return saga.report()


@workflow.defn
class HasATimeOut:
    """Bounds its transaction by a time-out of its own, which a step exceeds."""

    @workflow.run
    async def run(self) -> SagaReport:
        saga: Saga | None = None
        try:
            async with asyncio.timeout(0.2), transaction() as saga:
                await saga.run(hold_money, OK)
                await saga.run(hold_stock, Effort(forward=("hangs_after",)))
        except TimeoutError:
            assert saga is not None
            return saga.report()
        raise AssertionError("the time-out was lost")


@workflow.defn
class UndoesBesideAFailure:
    """Goes back to its first step while that one fails."""

    @workflow.run
    async def run(self) -> SagaReport:
        try:
            async with transaction() as saga:
                first = saga.register(hold_money, Effort(forward=("hangs_before", "hangs_before")))
                saga.launch(first)
                await saga.run(hold_stock, Effort(undo=("hangs_before", "hangs_before")))
                await saga.undo_to(1)
        except SagaRolledBack as error:
            return error.report
        return saga.report()


WORKFLOWS = [
    HasABug,
    HasABugBehindThePivot,
    WaitsForItsOwnActivity,
    LetsItPass,
    ContinuesAsNew,
    HasTwoTransactions,
    LaunchesOneOfTwo,
    HasATimeOut,
    UndoesBesideAFailure,
]
