"""What each provider does and refuses, apart from what all have in common."""

import pytest
from pydantic import JsonValue

from countermand.tools.world.models.cloud import Cluster, LoadBalancer
from countermand.tools.world.models.common import Page
from countermand.tools.world.models.inventory import Catalogue, Quote, Reservation
from countermand.tools.world.models.mail import Message

from .caller import Caller, error, outcome, parsed

ORDER: dict[str, JsonValue] = {
    "plan": "medium",
    "region": "eu-west",
    "quantity": 2,
    "load_balancers": 3,
    "customer_email": "ada@example.com",
    "hostname": "Ada.example.dev",
}


async def test_a_quote_prices_an_order_from_the_catalogue(world: Caller) -> None:
    catalogue = parsed(await world.get("inventory.catalog"), Catalogue)
    medium = next(plan.price.amount for plan in catalogue.plans if plan.plan == "medium")

    quote = parsed(await world.http.post("/inventory/quote", json=ORDER), Quote)

    assert quote.total.amount == 2 * medium + 3 * catalogue.load_balancer.amount
    assert sum(line.amount for line in quote.line_items) == quote.total.amount
    assert quote.hostname == "ada.example.dev"
    assert parsed(await world.get("inventory.get_quote", id=quote.id), Quote) == quote
    assert await world.standing() == []


async def test_the_same_order_has_the_same_quote_and_another_order_another(world: Caller) -> None:
    first = parsed(await world.http.post("/inventory/quote", json=ORDER), Quote)
    again = parsed(await world.http.post("/inventory/quote", json=ORDER), Quote)
    other = parsed(await world.http.post("/inventory/quote", json={**ORDER, "quantity": 1}), Quote)

    assert first == again
    assert other.id != first.id


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("plan", "huge"),
        ("region", "mars"),
        ("quantity", 0),
        ("quantity", -1),
        ("quantity", 10**9),
        ("load_balancers", 21),
        ("customer_email", "ada"),
        ("customer_email", ""),
        ("hostname", "ada"),
        ("hostname", "-a.example.com"),
        ("hostname", "a..example.com"),
        ("hostname", "a b.example.com"),
        ("hostname", f"{'a' * 64}.example.com"),
    ],
)
async def test_a_wrong_order_is_refused_by_the_name_of_its_field(world: Caller, field: str, wrong: JsonValue) -> None:
    answer = await world.http.post("/inventory/quote", json={**ORDER, field: wrong})

    assert answer.status_code == 422
    assert error(answer).message.startswith(f"{field}: ")
    assert (await world.state()).inventory.quotes == []


async def test_stock_goes_down_and_never_below_zero(world: Caller) -> None:
    await world.seed(stock={"small": 3})

    assert (await world.post("inventory.reserve", "k1", plan="small", quantity=2)).status_code == 200
    refused = await world.post("inventory.reserve", "k2", plan="small", quantity=2)

    assert (refused.status_code, error(refused).code) == (409, "out_of_stock")
    assert await world.stock("small") == 1


async def test_lists_come_in_pages_that_show_everything_once(world: Caller) -> None:
    for n in range(7):
        await world.post("inventory.reserve", f"k{n}", plan="small", reference=str(n))

    seen: list[str] = []
    query: dict[str, str | int] = {"limit": 3}
    while True:
        page = parsed(await world.get("inventory.list_reservations", **query), Page[Reservation])
        seen += [reservation.reference for reservation in page.data]
        if page.next is None:
            break
        query["after"] = page.next

    assert seen == [str(n) for n in range(7)]
    assert (await world.get("inventory.list_reservations", limit=101)).status_code == 422
    assert (await world.get("inventory.list_reservations", after="res_none")).status_code == 404


async def test_a_cluster_is_provisioned_and_terminated_in_its_own_time(world: Caller) -> None:
    await world.seed(provision_delay_s=30, terminate_delay_s=10)

    async def status(identity: str) -> str:
        return parsed(await world.get("cloud.get_cluster", id=identity), Cluster).status

    made = parsed(await world.post("cloud.create_cluster", "c", plan="small", region="eu-west"), Cluster)
    assert made.status == "provisioning"
    await world.let_time_pass(31)
    assert await status(made.id) == "ready"
    await world.post("cloud.terminate_cluster", "u", original_key="c")
    assert await status(made.id) == "terminating"
    await world.let_time_pass(11)
    assert await status(made.id) == "terminated"


async def test_without_a_delay_a_cluster_is_ready_at_once(world: Caller) -> None:
    made = await world.post("cloud.create_cluster", "c", plan="small", region="eu-west")

    assert parsed(made, Cluster).status == "ready"


async def test_a_region_holds_no_more_clusters_than_its_quota(world: Caller) -> None:
    await world.seed(cluster_quota=1)
    await world.post("cloud.create_cluster", "c1", plan="small", region="eu-west")

    refused = await world.post("cloud.create_cluster", "c2", plan="small", region="eu-west")
    elsewhere = await world.post("cloud.create_cluster", "c3", plan="small", region="us-east")
    await world.post("cloud.terminate_cluster", "u", original_key="c1")
    afterwards = await world.post("cloud.create_cluster", "c4", plan="small", region="eu-west")

    assert error(refused).code == "quota_exceeded"
    assert elsewhere.status_code == afterwards.status_code == 200


async def test_a_cluster_goes_after_its_load_balancers(world: Caller) -> None:
    cluster = parsed(await world.post("cloud.create_cluster", "c", plan="small", region="eu-west"), Cluster)
    balancer = parsed(await world.post("cloud.create_load_balancer", "lb", cluster_id=cluster.id), LoadBalancer)

    too_early = await world.post("cloud.terminate_cluster", "u", original_key="c")
    assert error(too_early).code == "has_dependents"
    assert balancer.id in error(too_early).message

    assert outcome(await world.post("cloud.delete_load_balancer", "ulb", original_key="lb")) == "done"
    assert outcome(await world.post("cloud.terminate_cluster", "u", original_key="c")) == "done"
    assert await world.standing() == []


async def test_a_load_balancer_needs_a_cluster_that_stands(world: Caller) -> None:
    cluster = parsed(await world.post("cloud.create_cluster", "c", plan="small", region="eu-west"), Cluster)
    await world.post("cloud.terminate_cluster", "u", original_key="c")

    gone = await world.post("cloud.create_load_balancer", "lb1", cluster_id=cluster.id)
    unknown = await world.post("cloud.create_load_balancer", "lb2", cluster_id="clu_none")

    assert (error(gone).code, error(unknown).code) == ("cluster_gone", "resource_missing")
    assert await world.standing() == []


async def test_mail_stands_for_good(world: Caller) -> None:
    message = parsed(
        await world.post("mail.send", "m", to=["ada@example.com"], subject="Your order", body="It is placed."), Message
    )

    assert (await world.state()).mail.messages == [message]
    assert [(effect.kind, effect.id) for effect in await world.standing()] == [("message", message.id)]
    assert (await world.post("mail.unsend", "u", original_key="m")).status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"to": []},
        {"to": ["ada"]},
        {"subject": "two\r\nBcc: eve@example.com"},
        {"subject": ""},
        {"bcc": ["a@b.example"]},
    ],
)
async def test_mail_that_makes_no_sense_is_not_sent(world: Caller, wrong: dict[str, JsonValue]) -> None:
    body: dict[str, JsonValue] = {"to": ["ada@example.com"], "subject": "s", "body": "b", **wrong}

    assert (await world.post("mail.send", "m", **body)).status_code == 422
    assert await world.standing() == []


async def test_every_effect_names_what_undoes_it_but_mail_and_the_undos(world: Caller) -> None:
    listed: list[dict[str, JsonValue]] = (await world.http.get("/operations")).json()
    effects = {str(known["name"]): known["undone_by"] for known in listed if known["effect"]}

    assert effects["dns.register"] == ["dns.unregister"]
    assert effects["payments.authorize"] == ["payments.void", "payments.refund"]
    assert effects["mail.send"] == []
    assert all(known["fenced"] for known in listed)
