"""Forty orders in plain words, placed for real: what stands in the world is exactly what was said."""

import asyncio
import re

from countermand.testing.env import SagaEnv
from countermand.tools.inventory import QuoteOrder
from countermand.tools.world.control import State
from tests.agents.test_orders import IN_TURNS, ONE_SENTENCE

FORTY = [*(((text,), expected) for text, expected in ONE_SENTENCE[:25]), *IN_TURNS[:15]]
AT_A_TIME = 5


async def place(env: SagaEnv, texts: tuple[str, ...], hostname: str) -> str:
    """Say it all under a host name of its own, and then yes; answers the last turn's saga."""
    talk = env.chat()
    for text in texts:
        await talk.say(re.sub("ada.example.dev", hostname, text, flags=re.IGNORECASE))
    return (await talk.say("yes")).saga.id


def placed(state: State, saga_id: str) -> QuoteOrder | None:
    """The order that a saga's standing effects make up; None if there is none."""
    standing = {effect.id for effect in state.standing if effect.key.startswith(f"{saga_id}:")}
    if not standing:
        return None
    (cluster,) = (one for one in state.cloud.clusters if one.id in standing)
    (record,) = (one for one in state.dns.records if one.id in standing)
    (message,) = (one for one in state.mail.messages if one.id in standing)
    return QuoteOrder(
        plan=cluster.plan,
        region=cluster.region,
        quantity=cluster.quantity,
        load_balancers=sum(one.id in standing for one in state.cloud.load_balancers),
        email=message.to[0],
        hostname=record.name,
    )


async def test_of_forty_orders_thirty_end_as_they_were_said_and_none_otherwise(saga_env: SagaEnv) -> None:
    await saga_env.world.seed(stock={"small": 100, "medium": 100, "large": 100})
    free = asyncio.Semaphore(AT_A_TIME)

    async def one(number: int, texts: tuple[str, ...]) -> str:
        async with free:
            return await place(saga_env, texts, f"n{number}.example.dev")

    sagas = await asyncio.gather(*(one(number, texts) for number, (texts, _) in enumerate(FORTY)))
    state = await saga_env.world.state()

    ends = [placed(state, saga_id) for saga_id in sagas]
    said = [
        expected.model_copy(update={"hostname": f"n{number}.example.dev"}) for number, (_, expected) in enumerate(FORTY)
    ]
    assert len(said) == 40
    assert [(end, wanted) for end, wanted in zip(ends, said, strict=True) if end is not None and end != wanted] == []
    assert sum(end is not None for end in ends) >= 30
