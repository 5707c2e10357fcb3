"""Benchmarks: ratios in one run, on one thread.

``python -m benchmarks`` runs the sections ``iteration``, ``solve``, ``memory`` and ``growth``;
``python -m benchmarks solve`` runs one of them. ``compare-numba`` runs only when named.
"""

import os

# BLAS reads these when NumPy is imported, so they are set before any module here imports it.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
