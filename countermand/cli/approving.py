"""Approvals in a conversation: the customer is shown what a call costs and what undoing it would do, and asked."""

import getpass
import re

from rich.console import Console

from countermand.saga.types import ID_PATTERN, ApprovalRequest


def agrees(console: Console, request: ApprovalRequest) -> bool:
    """Ask at the prompt whether a call may be made; anything but a yes is a no."""
    describe(console, request)
    try:
        return input("Approve? [y/N] ").strip().lower() in {"y", "yes"}
    except (EOFError, KeyboardInterrupt):
        return False


def describe(console: Console, request: ApprovalRequest) -> None:
    """Show what waits."""
    args = ", ".join(f"{name}={value}" for name, value in request.args.items())
    console.print(f"{request.agent or 'The plan'} wants to call {request.tool}({args})", style="bold", markup=False)
    console.print(f"  cost: {request.cost or 'none known'}", markup=False)
    console.print(f"  undoing it would: {request.undo}", markup=False)
    console.print(
        f"  asked by rule {request.rule}, until {request.expires.isoformat(timespec='seconds')}", markup=False
    )


def how_to_grant(request: ApprovalRequest) -> str:
    """What somebody at another terminal would type."""
    return f"countermand approvals grant {request.id}"


def customer() -> str:
    """The account of whoever sits at the prompt."""
    name = getpass.getuser()
    return name if re.fullmatch(ID_PATTERN, name) else "customer"
