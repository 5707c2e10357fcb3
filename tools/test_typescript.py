"""Check and test the TypeScript client against a real service: `make test-typescript`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.service import running

FOLDER = Path(__file__).parents[1] / "clients" / "typescript"


def main() -> None:
    """Make the types anew, compare, compile, test."""
    npm("install", "--no-audit", "--no-fund", "--no-package-lock", "--silent")
    types = FOLDER / "src" / "schema.d.ts"
    before = types.read_text(encoding="utf-8") if types.exists() else ""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder) / "a.db") as service,
    ):
        document = FOLDER / "openapi.json"
        document.write_bytes(service.get("/openapi.json").body)
        try:
            npm("run", "--silent", "types")
        finally:
            document.unlink()
        npm("run", "--silent", "build")
        npm("test", ADDRESS=service.address, KEY=service.key)
    if types.read_text(encoding="utf-8") != before:
        sys.exit(f"{types} was not as the OpenAPI document says; it is now: commit it")


def npm(*arguments: str, **environment: str) -> None:
    """Run npm in the client's folder."""
    subprocess.run(["npm", *arguments], cwd=FOLDER, env={**os.environ, **environment}, check=True)


if __name__ == "__main__":
    main()
