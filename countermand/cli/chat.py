"""``countermand chat``: a conversation with the order agent, in the terminal or by ``-m``."""

import asyncio
import re
import readline  # noqa: F401 # pyright: ignore[reportUnusedImport] - input() edits lines with it
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack, aclosing
from typing import Annotated

from cyclopts import Parameter
from pydantic import ValidationError
from temporalio.service import RPCError

from countermand.agents.agent_saga import TurnResult
from countermand.agents.chat import Chat, SessionBusy, SessionClosed, TurnLost
from countermand.agents.session import MAX_TEXT, Say, TurnTicket
from countermand.agents.team import Team
from countermand.agents.think import queue_of_models
from countermand.cache.connection import Connection
from countermand.cache.feed import Feed
from countermand.cli.agents import TeamChoice, team_of
from countermand.cli.approving import agrees, customer, describe, how_to_grant
from countermand.cli.console import (
    ERROR,
    INTERRUPTED,
    USAGE,
    CommandError,
    exit_code_of,
    progress,
    say_json,
    stderr,
    stdout,
    worst,
)
from countermand.cli.dry_run import plan, show_plan
from countermand.cli.live import LiveSteps
from countermand.cli.models import check_models
from countermand.client import connect
from countermand.embedded import connected
from countermand.encryption import load_cipher
from countermand.saga import SagaOptions
from countermand.saga.approvals import NotApprovable, decide_approval
from countermand.saga.types import ID_PATTERN, ApprovalRequest
from countermand.settings import Settings

_WELCOME = """\
Say what you want to order, for example:
  a medium environment in eu-west for ada@example.com at ada.example.dev, two load balancers
Ctrl-C stops a running turn and undoes it; Ctrl-D leaves."""

_STOPPING = "Stopping this turn; what it did is being undone … (Ctrl-C again leaves; it is undone all the same)"

_LEFT_OUT = "A card number or an API key was left out of your message: it is neither kept nor shown to a model."

_PATIENCE = 5.0
"""Seconds that a message may wait for a worker before the customer is told."""


def chat(
    *,
    message: Annotated[
        tuple[str, ...],
        Parameter(name=["-m", "--message"], allow_leading_hyphen=True, help="Say this and leave; repeatable."),
    ] = (),
    yes: Annotated[bool, Parameter(name="--yes", help="Confirm quotes in advance.")] = False,
    json_output: Annotated[
        bool, Parameter(name="--json", help="One JSON object a turn, and one for each call that waits for approval.")
    ] = False,
    session: Annotated[str | None, Parameter(help="Go on with this session, or give a new one its name.")] = None,
    model: Annotated[str | None, Parameter(help="stub[:persona], script:PATH, or provider:model.")] = None,
    team: TeamChoice = "order",
    dry_run: Annotated[bool, Parameter(name="--dry-run", help="Show what would be done; do nothing.")] = False,
) -> int:
    """Run the conversation; answers the worst turn's exit code."""
    settings = Settings()
    name = f"chat-{uuid.uuid4().hex[:8]}" if session is None else session
    chosen = model or settings.model
    _check(name, message)
    agents = team_of(team, settings)
    check_models([chosen, *(agent.model for agent in agents.agents)], settings)
    # A runner of our own: the prompt is read between its runs, so that Ctrl-C means what it should in both.
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            talk = runner.run(_connect(stack, settings, session=name, model=chosen, team=agents))
            terminal = Terminal(runner, talk, yes=yes, as_json=json_output, dry_run=dry_run)
            return terminal.say_all(message) if message else terminal.converse()
        finally:
            runner.run(stack.aclose())


def _check(session: str, messages: tuple[str, ...]) -> None:
    """Refuse what can't work before anything is started."""
    if not re.fullmatch(ID_PATTERN, session):
        raise CommandError("--session: use 1 to 64 letters, digits, dots, underscores or dashes", USAGE)
    for number, text in enumerate(messages, start=1):
        if not text.strip() or len(text) > MAX_TEXT:
            raise CommandError(f"-m {number}: a message has 1 to {MAX_TEXT:,} characters", USAGE)


async def _connect(stack: AsyncExitStack, settings: Settings, *, session: str, model: str, team: Team) -> Chat:
    cipher = load_cipher(settings.state_folder)
    endpoints = await stack.enter_async_context(connected(settings, notify=progress))
    redis = await stack.enter_async_context(Connection(endpoints.redis_url, cipher=cipher))
    return Chat(
        client=await connect(endpoints),
        task_queue=endpoints.task_queue,
        session=session,
        model=model,
        team=team,
        model_queue=queue_of_models(endpoints.task_queue),
        options=SagaOptions(max_attempts=settings.max_activity_retries, audit=True),
        feed=Feed(redis),
    )


class Terminal:
    """The conversation as a person at a terminal, or a program on a pipe, sees it."""

    def __init__(self, runner: asyncio.Runner, talk: Chat, *, yes: bool, as_json: bool, dry_run: bool) -> None:
        self._runner = runner
        self._talk = talk
        self._console = stderr()
        self._yes = yes
        self._as_json = as_json
        self._dry_run = dry_run
        self._asks = sys.stdin.isatty() and not as_json
        self._stopped = False
        self._told: set[str] = set()

    def say_all(self, messages: Iterable[str]) -> int:
        """Say each message in turn until Ctrl-C; answers the worst turn's exit code."""
        codes: list[int] = []
        for text in messages:
            codes.append(self._turn(text))
            if self._stopped:
                return INTERRUPTED
        return worst(codes)

    def converse(self) -> int:
        """Say what is typed until the end of the input; Ctrl-C stops a turn, and not the conversation."""
        if not sys.stdin.isatty():
            return self.say_all(_typed())
        self._console.print(_WELCOME, style="dim")
        code = worst([self._turn(text) for text in _typed()])
        self._console.print(f"Go on with: countermand chat --session {self._talk.session}", style="dim")
        return code

    def _turn(self, text: str) -> int:
        try:
            say = Say(turn_id=uuid.uuid4().hex, text=text, confirmed=self._yes)
            if say.text != text:
                self._console.print(_LEFT_OUT, style="yellow", markup=False)
            result = self._runner.run(plan(self._talk, say.text)) if self._dry_run else self._said(say)
        except ValidationError:
            return self._fail(f"a message has 1 to {MAX_TEXT:,} characters")
        except (SessionBusy, SessionClosed, TurnLost) as error:
            return self._fail(str(error))
        except RPCError as error:
            return self._fail(f"Temporal: {error.message}")
        if self._as_json:
            told = result.model_dump(mode="json", exclude={"messages", "spent", "tainted"})
            say_json({"text": result.text, **told})
        elif self._dry_run:
            show_plan(stdout(), result)
        else:
            answer = stdout()
            answer.print(result.text, markup=False, soft_wrap=not answer.is_terminal)
        return exit_code_of(result.saga.state)

    def _said(self, say: Say) -> TurnResult:
        result = self._runner.run(self._answer(say))
        while isinstance(result, ApprovalRequest):
            self._runner.run(self._decide(result, granted=agrees(self._console, result)))
            result = self._runner.run(self._answer(say))
        return result

    def _fail(self, message: str) -> int:
        self._console.print(f"error: {message}", style="red", markup=False, soft_wrap=True)
        return ERROR

    async def _answer(self, say: Say) -> TurnResult | ApprovalRequest:
        """The turn's answer, or a call that the customer must be asked about; said again, the turn is followed on."""
        self._stopped = False
        # Never left half-way: a message that is under way when Ctrl-C comes has its turn, which is then stopped.
        saying = asyncio.create_task(self._say(say))
        with LiveSteps(self._console, quiet=self._as_json) as live:
            try:
                return await self._watch(await asyncio.shield(saying), live)
            except asyncio.CancelledError:
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
                self._stopped = True
                self._console.print(_STOPPING, style="yellow")
                ticket = await saying
                await self._talk.cancel(ticket, "the customer stopped it")
                return await self._watch(ticket, live)

    async def _say(self, say: Say) -> TurnTicket:
        taken = asyncio.create_task(self._talk.say(say))
        await asyncio.wait({taken}, timeout=_PATIENCE)
        if not taken.done():
            self._console.print(f"No worker answers on {self._talk.task_queue} yet; is there one?", style="yellow")
        return await taken

    async def _watch(self, ticket: TurnTicket, live: LiveSteps) -> TurnResult | ApprovalRequest:
        async with aclosing(self._talk.watch(ticket)) as watched:
            async for news in watched:
                if isinstance(news, str):
                    live.say(news)
                    continue
                live.show(news)
                for request in news.approvals:
                    if request.id not in self._told:
                        self._told.add(request.id)
                        if self._asks:
                            return request
                        self._tell(request)
        return await self._talk.result(ticket)

    def _tell(self, request: ApprovalRequest) -> None:
        """Tell who can't be asked what waits; the turn goes on when somebody decides it elsewhere."""
        if self._as_json:
            say_json({"approval": request.model_dump(mode="json")})
            return
        describe(self._console, request)
        self._console.print(f"  waiting: {how_to_grant(request)}", markup=False, soft_wrap=True)

    async def _decide(self, request: ApprovalRequest, *, granted: bool) -> None:
        try:
            await decide_approval(self._talk.client, request.id, granted=granted, by=customer(), digest=request.digest)
        except NotApprovable as error:
            self._console.print(str(error), style="yellow", markup=False)


def _typed() -> Iterator[str]:
    """The lines that are typed, or piped in, until the end of the input; Ctrl-C drops a line."""
    prompt = "you> " if sys.stdin.isatty() else ""
    while True:
        if prompt:
            print()  # noqa: T201 - sets the turns apart, and the prompt from a line that was dropped
        try:
            line = input(prompt)
        except EOFError:
            return
        except KeyboardInterrupt:
            if not prompt:
                raise
            line = ""
        if line.strip():
            yield line
