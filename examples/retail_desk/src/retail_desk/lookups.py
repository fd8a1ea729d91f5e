"""What the desk looks up. Reads change nothing and need no undo."""

from pydantic import EmailStr, Field

from countermand.saga import ToolCall, ToolRefused
from countermand.saga.types import Frozen
from countermand.tools.tool import tool
from retail_desk.database import ORDERS, PAYMENT_METHODS, USERS, VARIANTS
from retail_desk.desk import Desk
from retail_desk.journal import read
from retail_desk.models import Order, OrderId, PaymentMethod, User, Variant


class FindUserByEmail(Frozen):
    """Who has an e-mail address."""

    email: EmailStr


class FindUserByNameAndZip(Frozen):
    """Who has a name, at a postal code."""

    first_name: str
    last_name: str
    zip: str


class GetUser(Frozen):
    """All about a customer."""

    user_id: str


class GetOrder(Frozen):
    """All about an order."""

    order_id: OrderId


class GetProduct(Frozen):
    """All variants of a product."""

    product_id: str = Field(description="A product's id, which is no item's.")


class GetItem(Frozen):
    """One variant."""

    item_id: str


class ListProducts(Frozen):
    """What the shop sells."""


class FoundUser(Frozen):
    """Who it is."""

    user_id: str


class UserDetails(Frozen):
    """A customer, with all payment methods and the ids of all orders."""

    user: User
    payment_methods: tuple[PaymentMethod, ...]
    orders: tuple[str, ...]


class Product(Frozen):
    """A product in all its variants."""

    product_id: str
    name: str
    variants: tuple[Variant, ...]


class Products(Frozen):
    """The ids of all products, by name."""

    product_ids: dict[str, str]


@tool(effect="read", parallel=True)
async def find_user_id_by_email(_call: ToolCall, args: FindUserByEmail) -> FoundUser:
    """Find a customer by e-mail address."""
    found = await read(lambda desk: desk.find(User, USERS.c.email == args.email))
    return _only(found, f"there is no user with the address {args.email}")


@tool(effect="read", parallel=True)
async def find_user_id_by_name_zip(_call: ToolCall, args: FindUserByNameAndZip) -> FoundUser:
    """Find a customer by first name, last name and postal code, where the e-mail address is not known."""
    named = (
        USERS.c.first_name == args.first_name,
        USERS.c.last_name == args.last_name,
        USERS.c.address["zip"].as_string() == args.zip,
    )
    found = await read(lambda desk: desk.find(User, *named))
    return _only(found, f"there is no {args.first_name} {args.last_name} at {args.zip}")


@tool(effect="read", parallel=True)
async def get_user_details(_call: ToolCall, args: GetUser) -> UserDetails:
    """Look up a customer: name, address, payment methods, orders."""

    def look(desk: Desk) -> UserDetails:
        return UserDetails(
            user=desk.user(args.user_id),
            payment_methods=tuple(desk.find(PaymentMethod, PAYMENT_METHODS.c.user_id == args.user_id)),
            orders=tuple(order.order_id for order in desk.find(Order, ORDERS.c.user_id == args.user_id)),
        )

    return await read(look)


@tool(effect="read", parallel=True)
async def get_order_details(_call: ToolCall, args: GetOrder) -> Order:
    """Look up an order: its items, status, address and payments."""
    return await read(lambda desk: desk.order(args.order_id))


@tool(effect="read", parallel=True)
async def get_product_details(_call: ToolCall, args: GetProduct) -> Product:
    """Look up a product: all variants, with options, price and availability."""
    found = await read(lambda desk: desk.find(Variant, VARIANTS.c.product_id == args.product_id))
    if not found:
        raise ToolRefused(f"there is no product {args.product_id}")
    return Product(product_id=args.product_id, name=found[0].name, variants=tuple(found))


@tool(effect="read", parallel=True)
async def get_item_details(_call: ToolCall, args: GetItem) -> Variant:
    """Look up one item: its product, options, price and availability."""
    return await read(lambda desk: desk.variant(args.item_id))


@tool(effect="read", parallel=True)
async def list_all_product_types(_call: ToolCall, _args: ListProducts) -> Products:
    """List the names and ids of all products."""
    found = await read(lambda desk: desk.find(Variant))
    return Products(product_ids={variant.name: variant.product_id for variant in found})


def _only(found: list[User], missing: str) -> FoundUser:
    if not found:
        raise ToolRefused(missing)
    return FoundUser(user_id=found[0].user_id)
