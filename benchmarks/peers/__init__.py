"""Other people's libraries beside ours, on the same data in one run: ``make bench-peers``."""
