"""The search attribute by which sagas are listed, and by which recovery finds those that closed without an end."""

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from countermand.saga.types import SagaOptions, SagaState

SAGA_STATE = SearchAttributeKey.for_keyword("SagaState")


def show_state(options: SagaOptions, state: SagaState) -> None:
    """Show a saga's state to who lists workflows, where the options say that the server can."""
    if options.visibility:
        workflow.upsert_search_attributes([SAGA_STATE.value_set(state)])
