"""Versions from files: policies that were taught elsewhere, kept in the log."""

from __future__ import annotations

import base64
import io
import re
import zipfile

from cobandits.engine.codec import decoded
from cobandits.engine.encoding import check_name
from cobandits.engine.events import Event
from cobandits.engine.settings import Settings
from cobandits.engine.versions import NAME
from cobandits.errors import DataError, ModelFileError
from cobandits.policies import Shared

__all__ = ["PRESENT", "content_of", "policy_of", "upload_body", "uploaded_policy"]

_GROWTH = 4  # bytes in memory per byte of a file: arrays are not compressed, but for a forged one
PRESENT = "present"  # how the service calls the state now where versions are compared
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def uploaded_policy(content: bytes, settings: Settings) -> Shared:
    """Return the policy of a file; refuse one that does not fit the space."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(one.file_size for one in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise DataError(f"the file is no policy that Shared.save wrote ({error})") from None
    if size > _GROWTH * len(content) + 2**20:
        raise DataError(f"the file has {len(content)} bytes and says to hold {size}; it is forged")
    buffer = io.BytesIO(content)
    try:
        policy = Shared.load(buffer)
    except ModelFileError as error:
        says = str(error).replace(str(buffer), "it")
        raise DataError(f"the file is no policy that Shared.save wrote: {says}") from None
    wanted = {
        "dim": settings.schema.dim,
        "labels": True,
        "explore": settings.explore,
        "on_change": settings.on_change,
        "reward_kind": settings.reward_kind,
    }
    for name, value in wanted.items():
        if (given := getattr(policy, name)) != value:
            raise DataError(
                f"the policy of the file has {name}={given!r}, this space needs {value!r}"
            )
    return policy


def upload_body(label: str, content: bytes) -> str:
    """Return the body of the event that keeps a file."""
    check_name(label, "label")
    if not _LABEL.fullmatch(label) or NAME.fullmatch(label) or label == PRESENT:
        raise DataError(
            "a label has letters, digits, '.', '_' and '-', at most 100, and is neither the name "
            f"of a version as v412 nor {PRESENT!r}, which is the state now, got {label!r:.60}"
        )
    return f'{{"label":"{label}","file":"{base64.b64encode(content).decode()}"}}'


def content_of(event: Event) -> bytes:
    """Return the file that an event keeps."""
    return base64.b64decode(decoded(event.body or "")["file"])


def policy_of(event: Event) -> Shared:
    """Return the policy that an event keeps."""
    return Shared.load(io.BytesIO(content_of(event)))
