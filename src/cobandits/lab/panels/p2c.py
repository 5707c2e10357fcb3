"""Figure 2c: regret per task by number of tasks."""

from cobandits.lab.panels.families import more_tasks

PANEL = more_tasks("2c", rank=4)
