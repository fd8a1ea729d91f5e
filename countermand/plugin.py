"""``CountermandPlugin``: adds sagas, agents and their tools to any Temporal client and worker in one line."""

import dataclasses
from collections.abc import Iterable
from functools import partial

from temporalio.contrib.pydantic import PydanticPayloadConverter, pydantic_data_converter
from temporalio.converter import DataConverter, DefaultFailureConverter
from temporalio.langgraph import LangGraphPlugin
from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkerConfig, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from typing_extensions import override

from countermand.agents.agent_saga import AgentSaga, result_of_turn
from countermand.agents.context import Contexts
from countermand.agents.feed import step_watcher
from countermand.agents.graph import GRAPH, build_graph
from countermand.agents.lines import read_end
from countermand.agents.pages import BatchPage, read_page
from countermand.agents.session import ChatSession
from countermand.agents.swarm import Swarm
from countermand.agents.think import Thinker
from countermand.agents.usage import PRICES, Prices
from countermand.cache.context import ContextCache
from countermand.cache.encoding import Cipher
from countermand.cache.feed import Feed
from countermand.encryption import EncryptingCodec
from countermand.failures import EncodedFailures, MaskedFailures
from countermand.saga import PlannedSaga
from countermand.saga.activities import activities_of
from countermand.saga.audit.appending import AuditSaga, AuditWriter
from countermand.saga.audit.log import AuditLog
from countermand.saga.janitor import Janitor, sweep_activity
from countermand.saga.limits import LimitsWorkflow
from countermand.saga.recovery import RecoverySaga
from countermand.saga.resets import steps_of_all_runs
from countermand.saga.residuals import ResidualsWorkflow
from countermand.saga.revoke import RevokeSaga
from countermand.saga.tool import AnyTool, declared


class CountermandPlugin(SimplePlugin):
    """Sagas, agents, their tools' activities, and the settings that all need.

    Give it to the client (its data converter) and to the worker; a worker takes its client's plugins over by itself.

    Args:
        tools: The tools to serve; all that are declared in this process if None.
        cache: Where conversations are shared by all workers; without it they are asked of their workflow.
        audit: Where sagas whose options say so bring what was decided and done.
        feed: Where whoever watches a session sees steps and text as they come.
        prices: What models cost.
        cipher: Encrypts what Temporal keeps; see ``load_cipher``.
    """

    def __init__(
        self,
        tools: Iterable[AnyTool] | None = None,
        *,
        cache: ContextCache | None = None,
        feed: Feed | None = None,
        audit: AuditLog | None = None,
        prices: Prices = PRICES,
        cipher: Cipher | None = None,
    ) -> None:
        served = list(declared().values() if tools is None else tools)
        thinker = Thinker(Contexts(cache), feed, prices)
        super().__init__(
            "countermand.CountermandPlugin",
            data_converter=partial(_converter, cipher),
            workflows=[
                PlannedSaga,
                AgentSaga,
                ChatSession,
                Swarm,
                BatchPage,
                RecoverySaga,
                RevokeSaga,
                ResidualsWorkflow,
                LimitsWorkflow,
                AuditSaga,
                Janitor,
            ],
            activities=[
                *activities_of(served, step_watcher(feed) if feed else None),
                thinker.think,
                result_of_turn,
                read_page,
                read_end,
                sweep_activity,
                steps_of_all_runs,
                *([AuditWriter(audit).append] if audit else []),
            ],
            interceptors=LangGraphPlugin(graphs={GRAPH: build_graph()}).interceptors,
            workflow_runner=_pass_through,
        )

    @override
    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        client = config.get("client")
        if client and not issubclass(client.data_converter.payload_converter_class, PydanticPayloadConverter):
            raise ValueError(
                "the worker's client can't carry sagas: give CountermandPlugin() to Client.connect(plugins=[...]), "
                "from which the worker takes it, or connect with temporalio's pydantic_data_converter"
            )
        return super().configure_worker(config)


def _converter(cipher: Cipher | None, given: DataConverter | None) -> DataConverter:
    """The client's own converter with pydantic's payloads; its codec, which may encrypt, stays.

    The words of failures are masked, and encrypted where payloads are.
    """
    converter = given or pydantic_data_converter
    if not issubclass(converter.payload_converter_class, PydanticPayloadConverter):
        converter = dataclasses.replace(converter, payload_converter_class=PydanticPayloadConverter)
    if converter.failure_converter_class is DefaultFailureConverter:
        converter = dataclasses.replace(converter, failure_converter_class=MaskedFailures)
    if converter.payload_codec is not None:
        return converter
    if cipher is not None:
        converter = dataclasses.replace(converter, failure_converter_class=EncodedFailures)
    return dataclasses.replace(converter, payload_codec=EncryptingCodec(cipher))


def _pass_through(runner: WorkflowRunner | None) -> WorkflowRunner:
    """Let our modules and the graph's pass the sandbox.

    Two copies of one module break ``except``, context variables and counters.
    """
    if isinstance(runner, SandboxedWorkflowRunner):
        restrictions = runner.restrictions.with_passthrough_modules(
            "countermand",
            "email_validator",
            "pydantic",
            "pydantic_core",
            "langchain_core",
            "langgraph",
            "langsmith",
            "rfc8785",
            "sqlalchemy",
            "cryptography",
            # Import hooks, which the sandbox would load anew for each workflow with all that they need.
            "beartype",
            "_pytest",
        )
        return dataclasses.replace(runner, restrictions=restrictions)
    if runner is None:
        raise ValueError("the worker gave the plugin no workflow runner")
    return runner
