"""Signed heads in a file: what its writer cannot take back shows a log that was cut off, rewound or forked."""

import os
from pathlib import Path

from pydantic import ValidationError

from countermand.saga.audit.chain import TreeHead, canonical
from countermand.saga.audit.errors import AuditError


def publish(path: Path, head: TreeHead) -> None:
    """Append a head to the file, a line each. One write, so that several processes may publish to one file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, canonical(head) + b"\n")
    finally:
        os.close(descriptor)


def published(path: Path) -> tuple[TreeHead, ...]:
    """The heads in a file.

    Raises:
        AuditError: There is no such file, or one of its lines is no head; the message names the line.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise AuditError(f"{path}: {error.strerror}") from error
    heads: list[TreeHead] = []
    for number, line in enumerate(lines, start=1):
        try:
            heads.append(TreeHead.model_validate_json(line))
        except ValidationError as error:
            raise AuditError(f"{path}, line {number}: no signed head: {error.errors()[0]['msg']}") from error
    return tuple(heads)
