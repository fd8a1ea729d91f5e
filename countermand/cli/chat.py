"""``countermand chat``: a conversation with the order agent, in the terminal or by ``-m``."""

import asyncio
import re
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from typing import Annotated

from cyclopts import App, Parameter
from pydantic import ValidationError
from rich.console import Console

from countermand.agents.agent_saga import TurnResult
from countermand.agents.chat import Chat, SessionClosed, TurnLost
from countermand.agents.models import ModelUnavailable, check_model_name
from countermand.agents.session import MAX_TEXT, Say, TurnTicket
from countermand.cache.connection import Connection
from countermand.cache.feed import Feed
from countermand.cli.console import ERROR, USAGE, CommandError, exit_code_of, say_json, stderr, worst
from countermand.cli.live import LiveSteps
from countermand.client import connect
from countermand.embedded import connected
from countermand.saga import SagaOptions
from countermand.saga.types import ID_PATTERN
from countermand.settings import Settings

chat = App(
    name="chat",
    help="""Talk to the order agent; each turn is one saga, committed or wholly undone.

Example: countermand chat --yes -m "a medium environment in eu-west for ada@example.com at ada.example.dev" --json

Exit code, of the worst turn: 0 committed, 3 compensated, 4 needs attention, 1 error.""",
)

_WELCOME = """\
Say what you want to order, for example:
  a medium environment in eu-west for ada@example.com at ada.example.dev, two load balancers
Ctrl-C stops a running turn and undoes it; an empty line with Ctrl-D leaves."""


@chat.default
def run(
    *,
    message: Annotated[
        tuple[str, ...], Parameter(name=["-m", "--message"], help="Say this and leave; repeatable.")
    ] = (),
    yes: Annotated[bool, Parameter(name="--yes", negative="", help="Confirm quotes in advance.")] = False,
    json_output: Annotated[bool, Parameter(name="--json", negative="", help="One JSON object a turn.")] = False,
    session: Annotated[str | None, Parameter(help="Go on with this session, or give a new one its name.")] = None,
    model: Annotated[str | None, Parameter(help="stub[:persona], script:PATH, or provider:model.")] = None,
) -> int:
    """Run the conversation; answers the worst turn's exit code."""
    settings = Settings()
    name = session or f"chat-{uuid.uuid4().hex[:8]}"
    chosen = model or settings.model
    _check(name, message, chosen)
    console = stderr()
    # A runner of our own: the prompt is read between its runs, so that Ctrl-C means what it should in both.
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            talk = runner.run(_connect(stack, settings, console, session=name, model=chosen))
            terminal = Terminal(runner, talk, console, yes=yes, as_json=json_output)
            return terminal.say_all(message) if message else terminal.converse()
        finally:
            runner.run(stack.aclose())


def _check(session: str, messages: tuple[str, ...], model: str) -> None:
    """Refuse what can't work before anything is started."""
    if not re.match(ID_PATTERN, session):
        raise CommandError("--session: use 1 to 64 letters, digits, dots, underscores or dashes", USAGE)
    for number, text in enumerate(messages, start=1):
        if not text.strip() or len(text) > MAX_TEXT:
            raise CommandError(f"-m {number}: a message has 1 to {MAX_TEXT:,} characters", USAGE)
    try:
        check_model_name(model)
    except ModelUnavailable as error:
        raise CommandError(f"--model: {error}", USAGE) from error


async def _connect(stack: AsyncExitStack, settings: Settings, console: Console, *, session: str, model: str) -> Chat:
    def notify(line: str) -> None:
        console.print(line, style="dim")

    endpoints = await stack.enter_async_context(connected(settings, notify=notify))
    redis = await stack.enter_async_context(Connection(endpoints.redis_url))
    return Chat(
        client=await connect(endpoints),
        task_queue=endpoints.task_queue,
        session=session,
        model=model,
        options=SagaOptions(max_attempts=settings.max_activity_retries, audit=True),
        feed=Feed(redis),
    )


class Terminal:
    """The conversation as a person at a terminal, or a program on a pipe, sees it."""

    def __init__(self, runner: asyncio.Runner, talk: Chat, console: Console, *, yes: bool, as_json: bool) -> None:
        self._runner = runner
        self._talk = talk
        self._console = console
        self._yes = yes
        self._as_json = as_json

    def say_all(self, messages: Iterable[str]) -> int:
        """Say each message in turn; answers the worst turn's exit code."""
        return worst([self._turn(text) for text in messages])

    def converse(self) -> int:
        """Say what is typed until the end of the input."""
        if sys.stdin.isatty():
            self._console.print(_WELCOME, style="dim")
        return self.say_all(_typed())

    def _turn(self, text: str) -> int:
        try:
            say = Say(turn_id=uuid.uuid4().hex, text=text, confirmed=self._yes)
            result = self._runner.run(self._answer(say))
        except ValidationError:
            return self._fail(f"a message has 1 to {MAX_TEXT:,} characters")
        except (SessionClosed, TurnLost) as error:
            return self._fail(str(error))
        if self._as_json:
            say_json(result.model_dump(mode="json", exclude={"messages"}))
        else:
            self._console.file.flush()
            print(result.text, flush=True)  # noqa: T201 - the answer is the program's output
        return exit_code_of(result.saga.state)

    def _fail(self, message: str) -> int:
        self._console.print(f"error: {message}", style="red")
        return ERROR

    async def _answer(self, say: Say) -> TurnResult:
        ticket = await self._talk.say(say)
        with LiveSteps(self._console, quiet=self._as_json) as live:
            try:
                return await self._watch(ticket, live)
            except asyncio.CancelledError:
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
                self._console.print("Stopping this turn; what it did is being undone …", style="yellow")
                await self._talk.cancel(ticket, "the customer stopped it")
                return await self._watch(ticket, live)

    async def _watch(self, ticket: TurnTicket, live: LiveSteps) -> TurnResult:
        async for news in self._talk.watch(ticket):
            if isinstance(news, str):
                live.say(news)
            else:
                live.show(news)
        return await self._talk.result(ticket)


def _typed() -> Iterator[str]:
    """The lines that are typed, or piped in, until the end of the input or Ctrl-C."""
    prompt = "you> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(prompt)
        except (EOFError, KeyboardInterrupt):
            return
        if line.strip():
            yield line
