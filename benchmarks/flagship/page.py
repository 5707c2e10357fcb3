"""The page: targets first, then each section with its commands and tables, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.flagship.figures import BEST, Cell, chosen, seconds_per_trial
from benchmarks.report import Table, Target
from benchmarks.timing import geometric_mean

__all__ = ["Part", "markdown", "notes_on", "page", "plus_minus", "regret_table", "target_table"]


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one section shows."""

    title: str
    text: str
    commands: Sequence[str]
    tables: Sequence[Table]
    targets: Sequence[Target]
    notes: Sequence[str] = ()
    seconds: float = 0.0  # of wall time

    def __str__(self) -> str:
        commands = "\n".join(["```", *self.commands, "```"])
        return "\n\n".join(
            [
                f"## {self.title}",
                self.text,
                *([commands] if self.commands else []),
                *(f"{table.title}\n\n{markdown(table)}" for table in self.tables),
                *self.notes,
                f"This took {self.seconds / 60:.1f} minutes of wall time.",
            ]
        )


def page(
    parts: Mapping[str, Part | str],
    facts: Mapping[str, str],
    days: set[str],
    *,
    command: str = "make flagship",
    about: str = "",
) -> str:
    """Return the page; a section that was not run has a text that says why."""
    done = [part for part in parts.values() if isinstance(part, Part)]
    targets = [(part.title, target) for part in done for target in part.targets]
    minutes = sum(part.seconds for part in done) / 60
    when = " to ".join(dict.fromkeys([min(days), max(days)])) if days else "nothing was run"
    machine = "; ".join(f"{name}: {fact}" for name, fact in facts.items())
    held = sum(target.met for _, target in targets)
    sections = [
        str(part) if isinstance(part, Part) else f"## {name}\n\n{part}"
        for name, part in parts.items()
    ]
    return "\n\n".join(
        [
            f"# `shared` against the other policies{about}",
            f"`{command}` makes this page and keeps what was run in `results/flagship`. Regret "
            "is per task, over all rounds, mean over tasks; a mean over trials ± half of its 95 % "
            "t-interval. All policies meet the same tasks, arms and noise in a trial. A ratio is "
            "one of means, the regret of `shared` over that of the other: below 1 it wins. In "
            "commands, T, r, s and n stand for what a cell has.",
            "`shared` is told nothing: no rank, noise or horizon, and nothing is tuned for a cell. "
            "But its constants, the same in all cells, were chosen while looking at trials of this "
            "seed, and how much it explores also at digits of seeds 8 and 9, which favours it a "
            "little. With `--seed 10`, which was not looked at, digits give 1.02 of tuned "
            "`linucb`, a tie. `lrrl` is told the rank. Tuned baselines learn each task alone; "
            "their parameters are those with the least regret on two other trials (`--tune`). The "
            "best of them is chosen in each cell by the very trials that are shown, in its favour.",
            f"Run: {when}, {minutes:.0f} minutes of wall time. {machine}.",
            f"## Targets\n\n{held} of {len(targets)} hold.\n\n{target_table(targets)}",
            *sections,
        ]
    )


def target_table(targets: Sequence[tuple[str, Target]]) -> str:
    """Return the targets of sections with what was measured, and a verdict each."""
    columns = ("section", "regret of `shared`", "bound", "measured", "verdict")
    rows = [
        (
            title,
            target.name,
            f"at most {target.at_most:g}",
            f"{target.measured:.3f}",
            "holds" if target.met else "**does not hold**",
        )
        for title, target in targets
    ]
    return markdown(Table(title="", columns=columns, rows=rows))


def regret_table(cells: Sequence[Cell], policies: Sequence[str], others: Sequence[str]) -> Table:
    """Return the means of policies in all cells, and the ratios of ``shared`` to others."""
    ratios = (f"shared / {other}" for other in others)
    columns = (*cells[0].setting, *policies, BEST, *ratios)
    rows = [
        (
            *(str(value) for value in cell.setting.values()),
            *(plus_minus(cell.mean(name), cell.half(name)) for name in policies),
            cell.best,
            *(f"{cell.ratio(other):.2f}" for other in others),
        )
        for cell in cells
    ]
    return Table(title="Regret per task.", columns=columns, rows=rows)


def notes_on(cells: Sequence[Cell], others: Sequence[str]) -> list[str]:
    """Return what sums up the cells: geometric means, chosen parameters, and seconds."""
    means = {name: geometric_mean([cell.ratio(name) for cell in cells]) for name in others}
    ratios = ", ".join(f"to {name} {mean:.3f}" for name, mean in means.items())
    values = "; ".join(f"{name}: {counts}" for name, counts in chosen(cells).items())
    seconds = ", ".join(f"{name} {value:.2g}" for name, value in seconds_per_trial(cells).items())
    return [
        f"Geometric means of the ratios: {ratios}.",
        f"Chosen by tuning (in how many cells; * is an edge of what was tried): {values}.",
        f"Seconds per trial, deciding and learning: {seconds}.",
    ]


def plus_minus(mean: float, half: float) -> str:
    """Return a mean and half its interval, if it has one, as people read them.

    >>> plus_minus(123.4, 5.678), plus_minus(1.2345, 0.01), plus_minus(1.5, 0)
    ('123 ± 5.7', '1.23 ± 0.01', '1.5')
    """
    return _number(mean, 3) + (f" ± {_number(half, 2)}" if half else "")


def markdown(table: Table) -> str:
    """Return the rows of a table as Markdown."""
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def _number(value: float, digits: int) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"
