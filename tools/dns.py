"""DNS: routes from host names to load balancers."""

from typing import Annotated

from pydantic import Field

from countermand.saga.types import Frozen
from countermand.tools.fields import HostName, Identifier


class RegisterDomainRoute(Frozen):
    """Route a host name to load balancers; what the name pointed to before is kept for the undo."""

    hostname: HostName = Field(description="The host name, fully qualified.")
    load_balancer_ids: Annotated[tuple[Identifier, ...], Field(min_length=1, max_length=10)] = Field(
        description="Ids of the load balancers that answer for it."
    )


class DomainRoute(Frozen):
    """A DNS record that was written."""

    record_id: Identifier
    hostname: HostName
    addresses: tuple[str, ...]
    version: int
