"""Versions from files: policies that were taught elsewhere, kept in the log."""

from __future__ import annotations

import base64
import io
import re
import zipfile

from cobandits.engine.codec import decoded
from cobandits.engine.encoding import check_name
from cobandits.engine.events import Event
from cobandits.engine.policies import SpacePolicy, n_shards, read_policy
from cobandits.engine.settings import Settings
from cobandits.engine.versions import NAME
from cobandits.errors import DataError, ModelFileError
from cobandits.sharded.container import is_sharded, unpacked

__all__ = ["PRESENT", "content_of", "policy_of", "upload_body", "uploaded_policy"]

_GROWTH = 4  # bytes in memory per byte of a file: arrays are not compressed, but for a forged one
PRESENT = "present"  # how the service calls the state now where versions are compared
_BUFFER = re.compile(r"<_io\.BytesIO object at \w+>")  # how an error names what was read
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def uploaded_policy(content: bytes, settings: Settings) -> SpacePolicy:
    """Return the policy of a file; refuse one that does not fit the space."""
    try:
        for part in unpacked(content)[1] if is_sharded(content) else [content]:
            _check_size(part)
        policy = read_policy(content)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise DataError(f"the file is no policy that Shared.save wrote ({error})") from None
    except ModelFileError as error:
        says = _BUFFER.sub("it", str(error))
        raise DataError(f"the file is no policy that Shared.save wrote: {says}") from None
    if (given := n_shards(policy)) != settings.shards:
        raise DataError(
            f"the policy of the file has shards={given}, this space needs {settings.shards}"
        )
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


def _check_size(content: bytes) -> None:
    """Refuse a file of arrays that says to hold far more than its size."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(one.file_size for one in archive.infolist())
    if size > _GROWTH * len(content) + 2**20:
        raise DataError(f"the file has {len(content)} bytes and says to hold {size}; it is forged")


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


def policy_of(event: Event) -> SpacePolicy:
    """Return the policy that an event keeps."""
    return read_policy(content_of(event))
