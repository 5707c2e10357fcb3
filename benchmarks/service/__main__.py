"""Run one of them: ``python -m benchmarks.service speed``."""

from __future__ import annotations

import argparse
import sys

from benchmarks.service import regret, soak, speed, startup


def main() -> None:
    """Run what is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("what", choices=["speed", "ratio", "regret", "startup", "soak"])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rewards", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=30.0, help="of a soak")
    parser.add_argument("--fastapi", default=sys.executable, help="a Python that has FastAPI")
    given = parser.parse_args()
    if given.what == "speed":
        speed.main(given.fastapi, given.seconds)
    elif given.what == "ratio":
        speed.in_turn(given.fastapi)
    elif given.what == "startup":
        startup.main(given.rewards)
    elif given.what == "soak":
        soak.main(given.minutes)
    else:
        regret.main(seeds=given.seeds)


if __name__ == "__main__":
    main()
