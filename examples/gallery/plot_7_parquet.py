"""
Fit a Parquet file
==================

A table of 60 cities with 25 rows each, of mixed columns. Does it pay to learn the cities
together, in how many directions, and which cities are alike? On the command line ``cobandits fit
rows.parquet --task city --reward clicks --plot pictures/`` does all of this.
"""

import tempfile
from pathlib import Path

import numpy as np
import polars

from cobandits import LowRank, TaskRows, plots, sharing, spectrum

rng = np.random.default_rng(4)
n, cities = 60 * 25, 60
taste = rng.standard_normal((2, cities))
city = np.repeat(np.arange(cities), 25)
table = polars.DataFrame(
    {
        "city": [f"city {k}" for k in city],
        **{f"x{j}": rng.standard_normal(n) for j in range(10)},
    }
)
directions = rng.standard_normal((10, 2))
signal = np.einsum("nd,dn->n", table.drop("city").to_numpy() @ directions, taste[:, city])
table = table.with_columns(clicks=signal + rng.standard_normal(n))
file = Path(tempfile.mkdtemp()) / "rows.parquet"
table.write_parquet(file)

# %%
# Read it, and ask first whether sharing helps.

tasks = TaskRows.from_file(file, task="city", reward="clicks")
found = sharing(tasks)
print(found)

# %%
errors = plots.held_out(found)

# %%
# How many directions? The step is where noise begins.

steps = plots.spectrum(spectrum(tasks))

# %%
# Fit, and draw the cities in the plane of the two widest directions.

estimate = LowRank(rank="auto", ridge="auto").fit(tasks)
print("rank", estimate.rank, estimate.status.outcome)
cities_drawn = plots.task_plane(estimate)
