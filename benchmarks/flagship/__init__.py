"""The tables that compare ``shared`` with the other policies.

``python -m benchmarks.flagship`` runs all of them and writes ``docs/shared-results.md``;
``python -m benchmarks.flagship noise drift`` runs two of them. What was run is not run
again: runs of ``shared`` are kept in ``results/flagship``, and those of the others, which take
longer and change less, in ``benchmarks/flagship/rivals``. Remove the files of what changed.
"""
