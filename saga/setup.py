"""What a namespace needs before sagas run in it: the search attribute, and histories that are kept long enough."""

from datetime import timedelta

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from countermand.saga.state import SAGA_STATE

RETENTION_AT_LEAST = timedelta(days=7)
"""The history is the ledger that recovery reads: retention bounds how late a lost saga can be recovered."""


async def register_saga_state(client: Client) -> bool:
    """Register the search attribute ``SagaState`` where it is missing; answers whether it was."""
    namespace = client.namespace
    known = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace=namespace))
    if SAGA_STATE.name in known.custom_attributes:
        return False
    keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace=namespace, search_attributes={SAGA_STATE.name: keyword})
    )
    return True


async def retention(client: Client) -> timedelta:
    """How long the namespace keeps the histories of closed workflows. Raises ``RPCError`` where there is none."""
    described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    return described.config.workflow_execution_retention_ttl.ToTimedelta()
