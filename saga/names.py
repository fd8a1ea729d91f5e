"""The ids of the workflows that stand beside a saga's own."""

RECOVER = "recover/"
"""``recover/<saga id>`` undoes a saga whose workflow is gone."""

REVOKE = "revoke/"
"""``revoke/<saga id>`` undoes a saga that had committed."""

RESIDUALS = "residuals/"
"""``residuals/<saga id>`` holds what could not be undone, until an operator has decided it."""

AUDIT = "audit/"
"""``audit/<workflow id>`` brings what a workflow recorded into the audit log."""

LIMITS = "limits/"
"""``limits/<tenant>/<UTC day>`` holds a tenant's orders of a day against its limit."""


def beside(saga_id: str) -> tuple[str, ...]:
    """All workflow ids that tell of a saga, its own first, in the order in which they come about."""
    return saga_id, f"{RECOVER}{saga_id}", f"{REVOKE}{saga_id}", f"{RESIDUALS}{saga_id}"


def saga_of(workflow_id: str) -> str:
    """The saga that a workflow tells of."""
    for prefix in (RECOVER, REVOKE, RESIDUALS):
        if workflow_id.startswith(prefix):
            return workflow_id.removeprefix(prefix)
    return workflow_id
