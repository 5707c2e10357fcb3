"""A progress bar for work that takes longer than two seconds; lines where there is no terminal."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ProgressBar"]


class ProgressBar:
    """Shows how far the work is, on stderr, once it has taken ``after`` seconds.

    Where stderr is not a terminal, a line is written after every ``every`` seconds, if they are
    given, and nothing otherwise. The bar is gone when the work is done. With a ``unit`` it also
    shows how many are done per second.

    >>> with ProgressBar() as bar:
    ...     bar.stage("fitting")
    ...     for done in range(3):
    ...         bar.update(done + 1, 3)
    """

    def __init__(
        self,
        *,
        after: float = 2.0,
        file: TextIO | None = None,
        hidden: bool = False,
        unit: str = "",
        every: float | None = None,
    ) -> None:
        self._every = every
        self._lines: _Lines | None = None
        self._after = after
        self._unit = unit
        self._hidden = hidden
        self._file = sys.stderr if file is None else file
        self._progress: Progress | None = None
        self._timer: threading.Timer | None = None
        self._shown = False

    def __enter__(self) -> ProgressBar:
        wanted = self._file.isatty() and not self._hidden
        self._progress = _rich_progress(self._file, self._unit) if wanted else None
        if self._progress is not None:
            self._timer = threading.Timer(self._after, self._show)  # work may be silent for long
            self._timer.daemon = True
            self._timer.start()
        elif self._every is not None and not self._hidden and not self._file.isatty():
            self._lines = _Lines(self._file, self._every)
            self._lines.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # it may be starting the bar just now
        if self._progress is not None and self._shown:
            self._progress.stop()
        self._progress = self._timer = None
        if self._lines is not None:
            self._lines.end()
            self._lines = None

    def stage(self, text: str) -> None:
        """Begin a stage of the work; its length is not known yet."""
        if self._lines is not None:
            self._lines.at, self._lines.done = text, ""
        if self._progress is not None:
            for past in self._progress.task_ids:
                self._progress.remove_task(past)
            self._progress.add_task(text, total=None)

    def update(self, done: int, total: int | None = None, text: str | None = None) -> None:
        """Show how much of the stage is done, of how much, and a description, if they are given."""
        if self._lines is not None:
            self._lines.done = f" ({done}{'' if total is None else f' of {total}'})"
        if self._progress is not None:
            for current in self._progress.task_ids:
                self._progress.update(current, completed=done, total=total, description=text)

    def _show(self) -> None:
        if self._progress is not None:
            self._shown = True
            self._progress.start()


class _Lines(threading.Thread):
    """Writes a line now and then: what is being done, how far it is, and for how long."""

    def __init__(self, file: TextIO, every: float) -> None:
        super().__init__(daemon=True)
        self.at, self.done = "working", ""
        self._file, self._every = file, every
        self._ended = threading.Event()

    def run(self) -> None:
        """Write until the end."""
        begin = time.monotonic()
        while not self._ended.wait(self._every):
            seconds = time.monotonic() - begin
            print(f"{self.at}{self.done}, {seconds:.0f} s", file=self._file, flush=True)

    def end(self) -> None:
        """Stop writing."""
        self._ended.set()
        self.join()


def _rich_progress(file: TextIO, unit: str) -> Progress | None:
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            Task,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text
    except ImportError:
        return None

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.1f} {unit}/s" if unit and task.speed else "")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(file=file),
        transient=True,
        redirect_stdout=False,  # results go to stdout, even while the bar is shown
        redirect_stderr=False,
    )
