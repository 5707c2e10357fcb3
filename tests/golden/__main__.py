"""Record all trajectories again."""

from tests.golden import SCENARIOS, path, record

for name in SCENARIOS:
    record(name)
    print(f"{path(name).name}: {path(name).stat().st_size} bytes")
