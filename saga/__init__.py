"""What is guaranteed: steps, sagas, their executor, compensation and recovery."""

from countermand.saga.errors import (
    CountermandError,
    SagaFailed,
    SagaRolledBack,
    ToolDeclarationError,
    ToolError,
    ToolRefused,
    ToolUnavailable,
)
from countermand.saga.executor import Saga
from countermand.saga.planned import Plan, PlannedSaga, PlannedStep
from countermand.saga.tool import Tool
from countermand.saga.transaction import transaction
from countermand.saga.types import (
    Cause,
    CauseKind,
    ProbeAnswer,
    Probed,
    SagaOptions,
    SagaReport,
    SagaState,
    ToolCall,
    Undone,
)

__all__ = [
    "Cause",
    "CauseKind",
    "CountermandError",
    "Plan",
    "PlannedSaga",
    "PlannedStep",
    "ProbeAnswer",
    "Probed",
    "Saga",
    "SagaFailed",
    "SagaOptions",
    "SagaReport",
    "SagaRolledBack",
    "SagaState",
    "Tool",
    "ToolCall",
    "ToolDeclarationError",
    "ToolError",
    "ToolRefused",
    "ToolUnavailable",
    "Undone",
    "transaction",
]
