"""Encryption of payloads: keys and their change, what was stored in clear, and failures' words."""

import base64
import json
import os
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from temporalio.client import Client

from countermand.encryption import KEY_FILE, KEY_VARIABLE, AesGcm, EncryptingCodec, EncryptionError, load_cipher
from countermand.plugin import CountermandPlugin
from countermand.replay.bundle import record
from countermand.replay.check import check
from countermand.saga import SagaState
from countermand.saga.reading import read_saga
from countermand.testing.env import SagaEnv
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.worker import build_worker
from tests.saga.orders import ORDER_PLAN

OLD, NEW = os.urandom(32), os.urandom(32)


def written(*keys: bytes) -> str:
    return "\n".join(base64.b64encode(key).decode() for key in keys)


def test_a_key_is_read_from_the_environment_or_else_from_the_folder_or_there_is_none(tmp_path: Path) -> None:
    assert load_cipher(tmp_path, {}) is None
    (tmp_path / KEY_FILE).write_text(written(OLD))
    stored, given = load_cipher(tmp_path, {}), load_cipher(tmp_path, {KEY_VARIABLE: written(NEW)})

    assert stored is not None
    assert given is not None
    assert AesGcm([OLD]).decrypt(stored.encrypt(b"x")) == b"x"
    assert AesGcm([NEW]).decrypt(given.encrypt(b"x")) == b"x"


@pytest.mark.parametrize("key", ["too short", written(b"x" * 16), "é" * 44])
def test_what_is_no_key_is_refused_in_a_line_that_does_not_repeat_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(EncryptionError, match="openssl rand -base64 32") as caught:
        load_cipher(tmp_path, {KEY_VARIABLE: key})
    assert key not in str(caught.value)


def test_after_a_change_of_keys_the_newest_encrypts_and_all_decrypt() -> None:
    before, after = AesGcm([OLD]), AesGcm([NEW, OLD])

    assert after.decrypt(before.encrypt(b"x")) == b"x"
    with pytest.raises(EncryptionError, match=f"add that key to {KEY_VARIABLE}"):
        before.decrypt(after.encrypt(b"x"))


def test_what_was_changed_is_refused() -> None:
    stored = bytearray(AesGcm([OLD]).encrypt(b"pay 100"))
    stored[-1] ^= 1
    with pytest.raises(EncryptionError):
        AesGcm([OLD]).decrypt(bytes(stored))


@pytest.fixture
async def encrypted(temporal_local: Client, world: WorldUnderTest) -> AsyncGenerator[SagaEnv]:
    """A worker and a client with a payload key."""
    config = temporal_local.config()
    plugin = CountermandPlugin(cipher=AesGcm([OLD]))
    client = await Client.connect(
        temporal_local.service_client.config.target_host, namespace=config["namespace"], plugins=[plugin]
    )
    env = SagaEnv(client=client, task_queue=f"encrypted-{uuid.uuid4().hex[:8]}", world=world)
    async with providers_at(world.url), build_worker(env.client, task_queue=env.task_queue):
        yield env


async def test_a_saga_that_failed_is_read_and_replayed_with_the_key_and_says_nothing_without(
    encrypted: SagaEnv, temporal_local: Client
) -> None:
    await encrypted.world.fault("payments.capture", "decline")
    report = await encrypted.run_plan(*ORDER_PLAN)
    assert report.state is SagaState.COMPENSATED

    steps = (await read_saga(encrypted.client, report.id)).steps
    (failed,) = [step for step in steps if step.tool == "capture_payment"]
    assert "declined" in failed.message
    history = await temporal_local.get_workflow_handle(report.id).fetch_history()
    in_clear = json.dumps(history.to_json_dict())
    assert "declined" not in in_clear
    assert "Encoded failure" in in_clear
    with pytest.raises(EncryptionError, match=f"set {KEY_VARIABLE}"):
        await read_saga(temporal_local, report.id)
    with pytest.raises(EncryptionError, match=f"set {KEY_VARIABLE}"):
        await temporal_local.get_workflow_handle(report.id).result()

    bundle = await record(encrypted.client, report.id)
    assert [step.message for step in await bundle.runs[0].steps()] == [step.message for step in steps]
    assert await check(bundle) == []


async def test_what_was_stored_before_there_was_a_key_is_read_as_it_is(temporal_local: Client) -> None:
    payloads = temporal_local.data_converter.payload_converter.to_payloads(["x"])
    assert await EncryptingCodec(AesGcm([OLD])).decode(payloads) == payloads
