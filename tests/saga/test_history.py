"""The ledgers of a saga's runs, taken together."""

from itertools import permutations

from countermand.saga import ToolCall
from countermand.saga.history import RecordedStep, merged
from countermand.saga.types import Outcome


def test_what_one_run_did_is_not_hidden_by_what_another_had_refused() -> None:
    call = ToolCall(saga_id="saga", step_no=1, key="saga:1")
    runs = [
        [RecordedStep(tool="hold_stock", call=call, args={}, outcome=outcome)]
        for outcome in (Outcome.REFUSED, Outcome.DONE, Outcome.UNKNOWN)
    ]

    assert {merged(order)[0].outcome for order in permutations(runs)} == {Outcome.DONE}
