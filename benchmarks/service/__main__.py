"""Run one of them: ``python -m benchmarks.service speed``."""

from __future__ import annotations

import argparse
import sys

from benchmarks.service import speed


def main() -> None:
    """Run what is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("what", choices=["speed"])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--fastapi", default=sys.executable, help="a Python that has FastAPI")
    given = parser.parse_args()
    speed.main(given.fastapi, given.seconds)


if __name__ == "__main__":
    main()
