"""The tables that compare ``shared`` with the other policies.

``python -m benchmarks.flagship`` runs all of them and writes ``docs/shared-results.md``;
``python -m benchmarks.flagship noise drift`` runs two of them. What was run is kept in
``results/flagship``, a file each, and is not run again: remove the files of what changed.
"""
