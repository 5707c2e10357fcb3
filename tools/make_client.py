"""Write the client for threads from the one for asyncio: the same code without `await`.

Run it after a change of `asynchronous.py` or `rewards_async.py`; a test compares.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["made", "paths"]

_FOLDER = Path(__file__).parents[1] / "src" / "cobandits" / "client"
_WORDS = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "AsyncClient": "Client",
    "AsyncRewards": "Rewards",
    "AsyncWaiting": "Waiting",
    "asynchronous": "synchronous",
    "rewards_async": "rewards_sync",
}


def made(source: str) -> str:
    """Return the code for threads.

    >>> made("async def close(self) -> None:  await self._http.aclose()")
    'def close(self) -> None:  self._http.close()'
    """
    text = re.sub(r'^"""(.*?)"""', _headline, source, count=1)
    text = re.sub(r"\b(?:async|await) ", "", text)
    text = re.sub(r"Callable\[(.*), Awaitable\[(.*)\]\]$", r"Callable[\1, \2]", text, flags=re.M)
    text = text.replace("import Awaitable, Callable", "import Callable")
    return re.sub(r"\w+", lambda word: _WORDS.get(word[0], word[0]), text)


def _headline(found: re.Match[str]) -> str:
    first = found[1].partition(". ")[0].replace("asyncio", "threads")
    return f'"""{first}; written by `tools/make_client.py`, do not edit."""'


def paths() -> list[tuple[Path, Path]]:
    """Return each source with the file that is made from it."""
    names = (("asynchronous", "synchronous"), ("rewards_async", "rewards_sync"))
    return [(_FOLDER / f"{source}.py", _FOLDER / f"{target}.py") for source, target in names]


def main() -> None:
    """Write the files."""
    for source, target in paths():
        target.write_text(made(source.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
