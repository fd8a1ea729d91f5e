"""Namespaces of a test's own: no other test's sagas are listed there."""

import uuid
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from countermand.plugin import CountermandPlugin
from countermand.testing.waiting import until


async def new_namespace(client: Client, *, retention: timedelta) -> Client:
    """A client of a new namespace, which knows no search attribute of ours yet."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    kept = Duration()
    kept.FromTimedelta(retention)
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=kept)
    )
    theirs = await Client.connect(
        client.service_client.config.target_host, namespace=name, plugins=[CountermandPlugin()]
    )

    async def known() -> bool:
        # The server's parts learn of a new namespace one after the other.
        try:
            await theirs.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace=name))
            await theirs.count_workflows()
        except RPCError:
            return False
        return True

    await until(known)
    return theirs
