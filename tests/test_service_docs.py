"""The commands of docs/service.md, as a reader would type them, and the files of deploy/."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import msgspec.yaml
import pytest

from cobandits.service import ServiceSettings
from cobandits.service.settings import ENVIRONMENT
from tests.service import running

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples were not run without curl")
def test_the_first_ten_minutes_work_as_written(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"test_service_docs\.py -->\n```bash\n(.*?)```", text, re.S)
    with running(tmp_path / "docs.db") as service:
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            env={**os.environ, "ADDRESS": service.address, "KEY": service.key},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        page = service.get("/dashboard/login")
    assert done.returncode == 0, done
    assert '"status":"accepted"' in done.stdout
    assert '"recomputed":{"id":"order-991"' in done.stdout
    assert '"token":"cb_' in done.stdout
    assert page.status == 200


@pytest.mark.parametrize("path", sorted((ROOT / "deploy").iterdir()), ids=lambda path: path.name)
def test_deploy_files_name_settings_that_there_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    known = {ENVIRONMENT + one.name.upper() for one in fields(ServiceSettings)}
    named = set(re.findall(rf"{ENVIRONMENT}(?!EXTENSION)[A-Z_]+", text))
    assert named <= known
    assert "COBANDITS_ADMIN_KEY" in named
    if path.suffix == ".yaml":
        for part in text.split("\n---\n"):
            assert isinstance(msgspec.yaml.decode(part), dict)
