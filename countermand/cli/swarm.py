"""``countermand swarm``: one agent saga on every line of a file, watched, bounded and resumable."""

import hashlib
import re
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from temporalio.client import Client

from countermand.agents import swarms
from countermand.agents.batch import BadLine, Batch, BatchInvalid, Line, read_batch
from countermand.agents.lines import LineReport
from countermand.agents.pages import load, ref_to
from countermand.agents.report import in_turn, read_line, read_report
from countermand.agents.swarm import MAX_CONCURRENCY, Ended, StopAfter, SwarmState, SwarmStatus
from countermand.agents.think import queue_of_models
from countermand.cli.console import (
    COMMITTED,
    COMPENSATED,
    USAGE,
    CommandError,
    exit_code_of,
    say_json,
    stderr,
    stdout,
    worst,
)
from countermand.cli.models import check_models
from countermand.cli.swarm_pages import as_csv, as_html
from countermand.cli.swarm_progress import SwarmProgress, told
from countermand.client import connect
from countermand.embedded import connected
from countermand.saga import SagaOptions
from countermand.saga.types import ID_PATTERN
from countermand.settings import Settings

swarm = App(
    name="swarm",
    help="""Run one agent saga on every line of a file: committed, or wholly undone.

Example: countermand swarm run orders.jsonl --stop-after-failures 5%

Exit code, of the worst line: 0 committed, 3 compensated, 4 needs attention, 2 a line that can't be run, 1 error.""",
)

BatchId = Annotated[str, Parameter(help="The batch's id, as 'swarm run' told it.")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON; one line a saga that ended.")]


@swarm.command
async def run(
    file: Annotated[str, Parameter(help="JSONL or CSV in UTF-8; - for standard input.", allow_leading_hyphen=True)],
    /,
    *,
    batch: Annotated[str | None, Parameter(help="The batch's id; by default from the file's name and content.")] = None,
    concurrency: Annotated[int, Parameter(help=f"Sagas at once, 1 to {MAX_CONCURRENCY}.")] = 32,
    stop_after_failures: Annotated[
        str | None, Parameter(help="Pause after so many lines that failed: N, or P% of all.")
    ] = None,
    strict: Annotated[bool, Parameter(negative="", help="Refuse the batch if a line can't be run.")] = False,
    model: Annotated[str | None, Parameter(help="For lines that name none.")] = None,
    json_output: Json = False,
) -> int:
    """Run a file's lines, or go on with them; nothing is done twice. Example: countermand swarm run a.csv."""
    settings = Settings()
    chosen = model or settings.model
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise CommandError(f"--concurrency: 1 to {MAX_CONCURRENCY}, not {concurrency}", USAGE)
    stop_after = _stop_after(stop_after_failures)
    read = _read(file)
    check_models([chosen, *(line.model for line in read.lines)], settings)
    _tell_bad(read.bad, as_json=json_output)
    if read.bad and (strict or not read.lines):
        lines = len({bad.number for bad in read.bad})
        raise CommandError(
            f"{file}: {lines:,} line{'s' if lines > 1 else ''} can't be run, see above: nothing was done", USAGE
        )
    name = batch or _named(file, read.lines)
    if not re.fullmatch(ID_PATTERN, name):
        raise CommandError(f"--batch {name!r}: use 1 to 64 letters, digits, dots, underscores or dashes", USAGE)
    swarms.check_batch_id(name)
    ref, _ = ref_to(name, read.lines)
    async with _servers() as there:
        state = SwarmState(
            batch=ref,
            model=chosen,
            model_queue=there.models,
            options=SagaOptions(max_attempts=settings.max_activity_retries, audit=True),
            concurrency=concurrency,
            stop_after=stop_after,
        )
        await swarms.begin(there.client, name, read.lines, state, task_queue=there.queue)
        code = await _watch(there.client, name, read.lines, as_json=json_output)
    return worst([code, *([USAGE] if read.bad else [])])


@swarm.command
async def resume(
    batch: BatchId,
    /,
    *,
    retry_failed: Annotated[bool, Parameter(negative="", help="Try the lines again that were undone.")] = False,
    json_output: Json = False,
) -> int:
    """Go on with a batch, and watch it. Example: countermand swarm resume orders-1a2b3c4d --retry-failed."""
    async with _servers() as there:
        await swarms.go_on(there.client, batch, retry=retry_failed, task_queue=there.queue)
        lines = await load(there.client, (await swarms.status(there.client, batch)).batch)
        return await _watch(there.client, batch, lines, as_json=json_output)


@swarm.command
async def status(batch: BatchId, /, *, json_output: Json = False) -> int:
    """Tell how far a batch is. Example: countermand swarm status orders-1a2b3c4d."""
    async with _servers() as there:
        now = await swarms.status(there.client, batch)
    _tell(now, as_json=json_output)
    return worst([exit_code_of(state) for state in now.states])


@swarm.command
async def pause(batch: BatchId, /, *, json_output: Json = False) -> int:
    """Start no more lines; those that run end. Example: countermand swarm pause orders-1a2b3c4d."""
    async with _servers() as there:
        await swarms.pause(there.client, batch)
        _tell(await swarms.status(there.client, batch), as_json=json_output)
    return COMMITTED


@swarm.command
async def cancel(
    batch: BatchId,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; it is recorded.")] = "cancelled by an operator",
    json_output: Json = False,
) -> int:
    """Undo every line that runs, start no more, and wait for it. Example: countermand swarm cancel orders-1a2b3c4d."""
    async with _servers() as there:
        await swarms.cancel(there.client, batch, reason)
        lines = await load(there.client, (await swarms.status(there.client, batch)).batch)
        return await _watch(there.client, batch, lines, as_json=json_output)


@swarm.command
async def report(
    batch: BatchId,
    /,
    *,
    form: Annotated[Literal["json", "csv", "html"], Parameter(name="--format", help="What to write.")] = "json",
    output: Annotated[Path | None, Parameter(help="The file to write; standard output if not given.")] = None,
) -> int:
    """Report a batch. Example: countermand swarm report orders-1a2b3c4d --format html --output orders.html."""
    async with _servers() as there:
        found = await read_report(there.client, batch)
    written = {"json": lambda: found.model_dump_json(indent=2) + "\n", "csv": lambda: as_csv(found)}.get(
        form, lambda: as_html(found)
    )()
    if output is None:
        sys.stdout.write(written)
    else:
        output.write_text(written, "utf-8")
    return worst([exit_code_of(state) for state in found.states])


@dataclass(frozen=True)
class _Servers:
    client: Client
    queue: str
    models: str


@asynccontextmanager
async def _servers() -> AsyncGenerator[_Servers]:
    async with connected(Settings(), notify=lambda line: stderr().print(line, style="dim")) as endpoints:
        queue = swarms.queue_of_swarms(endpoints.task_queue)
        yield _Servers(await connect(endpoints), queue, queue_of_models(queue))


async def _watch(client: Client, batch: str, lines: Sequence[Line], *, as_json: bool) -> int:
    """Show the swarm until it ends or stops; answers the worst line's exit code. What never ran did not commit."""
    states = dict.fromkeys(range(len(lines)), COMPENSATED)
    with SwarmProgress(stderr(), batch, quiet=as_json) as progress:
        async with aclosing(swarms.watch(client, batch)) as news:
            async for now, ended in news:
                progress.show(now)
                states |= {one.place: exit_code_of(one.state) for one in ended}
                if as_json:
                    await _say(client, batch, lines, ended)
    return worst(list(states.values()))


async def _say(client: Client, batch: str, lines: Sequence[Line], ended: Sequence[Ended]) -> None:
    async def read(one: Ended) -> LineReport:
        return await read_line(client, batch, lines[one.place], one)

    for line in await in_turn(ended, read):
        say_json(line.model_dump(mode="json"))


def _tell(now: SwarmStatus, *, as_json: bool) -> None:
    if as_json:
        say_json(now.model_dump(mode="json", exclude={"batch": {"pages"}}))
    else:
        stdout().print(told(now), soft_wrap=True)


def _tell_bad(bad: Sequence[BadLine], *, as_json: bool) -> None:
    for one in bad:
        if as_json:
            say_json({"bad": one.model_dump(mode="json")})
        else:
            stderr().print(f"line {one.number}: {one.field}: {one.reason}", style="red", markup=False, soft_wrap=True)


def _read(file: str) -> Batch:
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as source:
            return read_batch(source, name=file)
    except BatchInvalid as error:
        raise CommandError(str(error), USAGE) from error
    except OSError as error:
        raise CommandError(
            f"{file}: {error.strerror}: name a JSONL or CSV file, or - for standard input", USAGE
        ) from error


def _named(file: str, lines: Sequence[Line]) -> str:
    """An id that the same file gets again, and no other: so that a second run goes on with the first."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(file).stem if file != "-" else "stdin")[:48]
    content = "\n".join(line.model_dump_json() for line in lines)
    return f"{stem}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def _stop_after(given: str | None) -> StopAfter | None:
    if given is None:
        return None
    found = re.fullmatch(r"(\d{1,6})|(\d{1,3}(?:\.\d+)?)%", given)
    lines, percent = (found[1], found[2]) if found else (None, None)
    if lines and int(lines):
        return StopAfter(lines=int(lines))
    if percent and 0 < float(percent) <= 100:  # noqa: PLR2004 - per cent
        return StopAfter(percent=float(percent))
    raise CommandError(f"--stop-after-failures {given!r}: a number of lines from 1, or a share like 5%", USAGE)
