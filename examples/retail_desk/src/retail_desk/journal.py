"""The journal makes every write a step that can be taken back: it keeps, by the call's key, what was there before.

A call and its journal entry are one transaction. So a call that is made twice has one effect, an undo restores exactly
the rows that the call changed, and an undo that comes first leaves the entry that refuses the call when it comes late.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter
from sqlalchemy import Connection, RowMapping, Table, insert, select
from sqlalchemy.exc import DBAPIError

from countermand.saga import ProbeAnswer, Probed, ToolCall, ToolRefused, ToolUnavailable, Undone
from retail_desk.database import JOURNAL, SHOP, transaction
from retail_desk.desk import BeforeImage, Desk, key_column

T = TypeVar("T")
ResultT = TypeVar("ResultT", bound=BaseModel)


async def write_once(
    call: ToolCall, args: BaseModel, answer: type[ResultT], write: Callable[[Desk], ResultT]
) -> ResultT:
    """Do a write once under the call's key; a duplicate gets the first one's answer.

    Raises:
        ToolRefused: ``write`` refuses, the call was undone, or the key came with other arguments before.
        ToolUnavailable: The database does not answer.
    """

    def work(connection: Connection) -> ResultT:
        if _entry(connection, call.step_key, "undo"):
            raise ToolRefused("this call was undone: it can't be made any more")
        if made := _entry(connection, call.key, "do"):
            if made["args"] != args.model_dump_json():
                raise ToolRefused(f"the key {call.key} was used with other arguments")
            return answer.model_validate_json(made["result"])
        desk = Desk(connection, version=call.key)
        result = write(desk)
        _note(
            connection,
            call,
            "do",
            args=args.model_dump_json(),
            result=result.model_dump_json(),
            before=_IMAGES.dump_json(desk.before).decode(),
        )
        return result

    return await _answered(work)


async def restore_rows(call: ToolCall, _args: BaseModel, _result: BaseModel | None) -> Undone:
    """Put back what a call changed, all of it or nothing; the undo of every write of this pack, effective once.

    Raises:
        ToolRefused: Somebody changed a row since. It is left as it is: the saga tells it as a residual.
        ToolUnavailable: The database does not answer.
    """

    def work(connection: Connection) -> Undone:
        if undone := _entry(connection, call.step_key, "undo"):
            return Undone(effective=undone["effective"])
        made = _entry(connection, call.step_key, "do")
        images = _IMAGES.validate_json(made["before"]) if made else []
        for image in reversed(images):
            _restore(connection, image, call.step_key)
        _note(connection, call, "undo", effective=bool(made))
        return Undone(effective=bool(made))

    return await _answered(work)


def found_by_key(answer: type[ResultT]) -> Callable[[ToolCall, BaseModel], Awaitable[Probed[ResultT]]]:
    """The probe of the writes that answer with ``answer``: what the journal has under the call's key."""

    async def find(call: ToolCall, _args: BaseModel) -> Probed[ResultT]:
        def work(connection: Connection) -> Probed[ResultT]:
            made = _entry(connection, call.step_key, "do")
            if made is None or _entry(connection, call.step_key, "undo"):
                return Probed(ProbeAnswer.NOT_LANDED)
            return Probed(ProbeAnswer.LANDED, answer.model_validate_json(made["result"]))

        return await _answered(work)

    return find


async def read(look: Callable[[Desk], T]) -> T:
    """Look something up.

    Raises:
        ToolRefused: ``look`` does not find it.
        ToolUnavailable: The database does not answer.
    """
    return await _answered(lambda connection: look(Desk(connection, version="")))


async def _answered(work: Callable[[Connection], T]) -> T:
    def in_a_transaction() -> T:
        with transaction() as connection:
            return work(connection)

    try:
        return await asyncio.to_thread(in_a_transaction)
    except DBAPIError as error:
        raise ToolUnavailable(f"the shop's database does not answer: {error.orig}") from error


def _restore(connection: Connection, image: BeforeImage, step: str) -> None:
    table: Table = SHOP.tables[image.table]
    as_left = (key_column(table) == image.id, table.c.version == step)
    if image.row is None:
        changed = table.delete().where(*as_left)
    else:
        changed = table.update().where(*as_left).values(**image.row)
    if connection.execute(changed).rowcount != 1:
        by = connection.execute(select(table.c.version).where(key_column(table) == image.id)).scalar()
        raise ToolRefused(f"{image.id} of {image.table} was changed since, by {by or 'somebody'}: it is left as it is")


def _entry(connection: Connection, step: str, direction: str) -> RowMapping | None:
    wanted = select(JOURNAL).where(JOURNAL.c.step == step, JOURNAL.c.direction == direction)
    return connection.execute(wanted).mappings().first()


def _note(connection: Connection, call: ToolCall, direction: str, *, effective: bool = True, **what: str) -> None:
    entry = {"key": call.key, "step": call.step_key, "direction": direction, "effective": effective, **what}
    connection.execute(insert(JOURNAL).values(**entry))


_IMAGES = TypeAdapter(list[BeforeImage])
