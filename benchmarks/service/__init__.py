"""Load on a real service over HTTP: its speed, what it learns, and what survives kills."""
