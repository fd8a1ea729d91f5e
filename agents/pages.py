"""A batch by reference: its lines in pages that Temporal keeps, so that any worker on any machine can read them.

A page is the result of a workflow whose id is the digest of its content: stored twice it is stored once, it needs no
shared disk, and the payload codec that may encrypt sagas encrypts it, too. The namespace's retention bounds it, as it
bounds the sagas' own ledgers.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from datetime import timedelta

from pydantic import Field
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from countermand.agents.batch import Line
from countermand.saga.types import ID_PATTERN, Frozen

PAGE_LINES = 200
PAGE_BYTES = 256_000
"""What a page holds; the server refuses payloads above 2 MB, and warns of those above 512 KB."""

PAGE = "page/"
"""``page/<digest>`` holds a page of a batch."""


class Page(Frozen):
    """Neighbouring lines of a batch."""

    lines: tuple[Line, ...]

    @property
    def workflow_id(self) -> str:
        """Where the page is kept."""
        return f"{PAGE}{hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:40]}"


class PageRef(Frozen):
    """A page that is kept: its workflow, and the place in the batch of its first line, counted from 0."""

    workflow_id: str
    first: int


class BatchRef(Frozen):
    """A batch, by reference."""

    id: str = Field(pattern=ID_PATTERN)
    lines: int = Field(ge=1)
    pages: tuple[PageRef, ...] = Field(min_length=1)


@workflow.defn
class BatchPage:
    """Keeps a page as its result."""

    @workflow.run
    async def run(self, page: Page) -> Page:
        """Answer the page."""
        return page


@activity.defn
async def read_page(page: PageRef) -> Page:
    """Read a page where it is kept."""
    try:
        handle = activity.client().get_workflow_handle_for(BatchPage.run, page.workflow_id)
        return await handle.result()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise ApplicationError("the batch's lines are gone: run its file again", non_retryable=True) from error


async def page_of(page: PageRef) -> Page:
    """Read a page from within a workflow."""
    return await workflow.execute_activity(
        read_page,
        page,
        start_to_close_timeout=timedelta(seconds=10),
        retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=5)),
    )


def ref_to(batch_id: str, lines: Iterable[Line]) -> tuple[BatchRef, list[Page]]:
    """The reference to a batch, and its pages, which are not stored yet."""
    pages = list(_pages(lines))
    refs: list[PageRef] = []
    first = 0
    for page in pages:
        refs.append(PageRef(workflow_id=page.workflow_id, first=first))
        first += len(page.lines)
    return BatchRef(id=batch_id, lines=first, pages=tuple(refs)), pages


async def store(client: Client, pages: Iterable[Page], *, task_queue: str) -> None:
    """Have pages kept; those that are kept already stay as they are."""

    async def keep(page: Page) -> None:
        try:
            await client.execute_workflow(
                BatchPage.run,
                page,
                id=page.workflow_id,
                task_queue=task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            )
        except WorkflowAlreadyStartedError:
            return

    await asyncio.gather(*(keep(page) for page in pages))


async def load(client: Client, batch: BatchRef) -> list[Line]:
    """All lines of a batch that is stored."""
    handles = [client.get_workflow_handle_for(BatchPage.run, page.workflow_id) for page in batch.pages]
    pages = await asyncio.gather(*(handle.result() for handle in handles))
    return [line for page in pages for line in page.lines]


def _pages(lines: Iterable[Line]) -> Iterator[Page]:
    held: list[Line] = []
    size = 0
    for line in lines:
        bytes_ = len(line.model_dump_json().encode())
        if held and (len(held) == PAGE_LINES or size + bytes_ > PAGE_BYTES):
            yield Page(lines=tuple(held))
            held, size = [], 0
        held.append(line)
        size += bytes_
    if held:
        yield Page(lines=tuple(held))
