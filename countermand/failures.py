"""The words of failures as Temporal keeps them: in clear, so without what must not stand in a history."""

from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, PayloadConverter
from typing_extensions import override

from countermand.saga.sensitive import masked


class MaskedFailures(DefaultFailureConverter):
    """Leaves card numbers and API keys out of messages and stacks, those of causes too."""

    @override
    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        super().to_failure(exception, payload_converter, failure)
        failure.message = masked(failure.message)
        failure.stack_trace = masked(failure.stack_trace)


class EncodedFailures(MaskedFailures):
    """Keeps what is left of them in the part that a codec encrypts."""

    @override
    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        super().to_failure(exception, payload_converter, failure)
        words = {"message": failure.message, "stack_trace": failure.stack_trace}
        failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([words])[0])
        failure.message, failure.stack_trace = "Encoded failure", ""
