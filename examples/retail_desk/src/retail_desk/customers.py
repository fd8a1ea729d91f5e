"""What can be changed about a customer."""

from countermand.saga import ToolCall
from countermand.tools.tool import tool
from retail_desk.desk import Desk
from retail_desk.journal import found_by_key, restore_rows, write_once
from retail_desk.models import Address, User


class ModifyUserAddress(Address):
    """Change where a customer's orders go from now on. Give the whole new address."""

    user_id: str


@tool(effect="compensable", compensate=restore_rows, probe=found_by_key(User))
async def modify_user_address(call: ToolCall, args: ModifyUserAddress) -> User:
    """Change a customer's default address; orders that were placed keep theirs."""

    def move(desk: Desk) -> User:
        address = Address.model_validate(args.model_dump(exclude={"user_id"}))
        return desk.save(desk.user(args.user_id).model_copy(update={"address": address}))

    return await write_once(call, args, User, move)
