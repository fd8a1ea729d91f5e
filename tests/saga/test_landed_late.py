from countermand.saga import SagaState
from countermand.testing.env import SagaEnv
from tests.saga.orders import EFFECTS, MAIL, ORDER_PLAN, standing_kinds


async def test_a_mail_that_was_given_up_and_lands_while_it_is_waited_for_commits_the_order(saga_env: SagaEnv) -> None:
    # Its caller gives up after 5 seconds; what follows finds the key in use, and spends the retries.
    await saga_env.world.fault("mail.send", "slow", delay_s=11, times=1)

    report = await saga_env.run_plan(*ORDER_PLAN)

    assert report.state is SagaState.COMMITTED
    assert report.residuals == ()
    assert await standing_kinds(saga_env) == sorted(EFFECTS)
    assert report.steps[MAIL - 1].outcome == "done"
