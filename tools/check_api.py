"""Check a running service against its OpenAPI document with schemathesis: `make check-api`.

No request may give a server error or an answer that the document does not describe. What the
document cannot say is left out: that a body which fits its JSON schema may still be refused, as an
arm that does not fit the schema of its space.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.service import running

LEAST = 2000  # cases


def main(schemathesis: str, examples: int = 60) -> None:
    """Start a service, and run ``schemathesis`` on it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder) / "checked.db", rate=1e6) as service,
    ):
        service.post("/v1/spaces", {"name": "teas", "dim": 2})
        options = ["--max-examples", str(examples), "--phases", "examples,coverage,fuzzing"]
        options += ["--exclude-checks", "positive_data_acceptance", "--continue-on-failure"]
        options += ["--suppress-health-check", "all", "--no-color", "--generation-database", "none"]
        options += ["--request-timeout", "60"]  # seconds, on a machine that is busy
        command = [schemathesis, "run", f"{service.address}/openapi.json", *options]
        command += ["--header", f"Authorization: Bearer {service.key}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        alive = service.get("/livez").status == 200
    print(done.stdout[-6000:], done.stderr[-2000:])
    found = re.search(r"(\d+) generated", done.stdout)
    cases = int(found[1]) if found else 0
    if done.returncode or not alive or cases < LEAST:
        sys.exit(f"failed: {cases} cases of at least {LEAST}, exit status {done.returncode}")
    print(f"{cases} cases, and no answer that the document does not describe")


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).absolute()))  # it is run in another folder
