"""Show the share of lines that tests reach, from slipcover's JSON, and fail below a least share.

Usage: ``python tools/show_coverage.py coverage.json 97``
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def table(files: dict[str, tuple[int, int]]) -> list[str]:
    r"""Return a line per file with missed lines, from (reached, missed), and one for all.

    >>> print("\n".join(table({"a.py": (9, 1), "b.py": (30, 0)})))
      90.0 %  a.py
      97.5 %  all lines
    """
    rows = {name: counts for name, counts in sorted(files.items()) if counts[1]}
    reached = sum(counts[0] for counts in files.values())
    missed = sum(counts[1] for counts in files.values())
    return [_line(*counts, name) for name, counts in rows.items()] + [
        _line(reached, missed, "all lines")
    ]


def _line(reached: int, missed: int, name: str) -> str:
    return f"{100 * reached / max(1, reached + missed):6.1f} %  {name}"


def main(path: str, least: str) -> int:
    """Print the table; return 1 where too few lines are reached."""
    found = json.loads(Path(path).read_text(encoding="utf-8"))["files"]
    files = {
        name: (len(one["executed_lines"]), len(one["missing_lines"])) for name, one in found.items()
    }
    lines = table(files)
    print("\n".join(lines))
    share = float(lines[-1].split()[0])
    if share < float(least):
        print(f"The tests reach {share} % of the lines, and should reach at least {least} %.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
