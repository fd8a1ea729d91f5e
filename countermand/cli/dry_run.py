"""``countermand chat --dry-run``: what the agents would do, each step with its price and its undo."""

import uuid

from rich.console import Console
from rich.table import Table

from countermand.agents.agent_saga import AgentSaga, TurnResult
from countermand.agents.chat import Chat
from countermand.agents.turn import TurnInput


async def plan(talk: Chat, text: str) -> TurnResult:
    """Let the agents plan an order as if it were confirmed. It reads, has no effect, and is no part of the session."""
    turn = TurnInput(
        text=text,
        model=talk.model,
        team=talk.team,
        tenant=talk.tenant,
        confirmed=True,
        dry_run=True,
        model_queue=talk.model_queue,
        options=talk.options,
    )
    return await talk.client.execute_workflow(
        AgentSaga.run, turn, id=f"dry-run-{uuid.uuid4().hex[:12]}", task_queue=talk.task_queue
    )


def show_plan(console: Console, result: TurnResult) -> None:
    """Show the plan, or what the agents say where they would do nothing."""
    if not result.plan:
        console.print(result.text, markup=False)
        return
    table = Table("step", "agent", "call", "price", "undoing it would", "approval")
    for line in result.plan:
        if line.point_of_no_return:
            table.add_section()
            table.add_row("", "", "— from here on there is no way back —", "", "", "")
        args = ", ".join(f"{name}={value}" for name, value in line.args.items())
        price, asks = str(line.price or ""), line.asks or ""
        table.add_row(str(line.no), line.agent, f"{line.tool}({args})", price, line.undo, asks)
    console.print(table)
    console.print("A dry run: nothing was done.")
