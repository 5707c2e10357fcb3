"""Named random streams.

A stream is known by a seed and a path of names. Streams with different paths are
independent, and a stream does not depend on which others were drawn before it.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.random import Generator, SeedSequence

from cobandits.errors import ConfigurationError

__all__ = ["RandomSource", "check_generator", "generator", "stream"]

RandomSource = Generator | int | None


def stream(seed: int, *path: str | int) -> Generator:
    """Return the generator of the stream that ``path`` names under ``seed``.

    >>> a = stream(7, "environment", 3).standard_normal(2)
    >>> b = stream(7, "environment", 3).standard_normal(2)
    >>> bool((a == b).all())
    True
    """
    plain = tuple(name if isinstance(name, str) else int(name) for name in path)
    digest = hashlib.sha256(repr(plain).encode()).digest()
    words = np.frombuffer(digest, dtype=np.uint32)
    return np.random.default_rng(SeedSequence([seed, *words.tolist()]))


def check_generator(rng: object) -> None:
    """Refuse what is no generator; a seed would give the same numbers in every call."""
    if not isinstance(rng, Generator):
        raise ConfigurationError(
            f"rng must be a numpy.random.Generator, got {rng!r}; make one, such as "
            "rng = np.random.default_rng(7), and pass the same one to every call"
        )


def generator(source: RandomSource) -> Generator:
    """Return ``source`` as a generator: itself, seeded by an int, or seeded by 0 for None."""
    if isinstance(source, Generator):
        return source
    return np.random.default_rng(0 if source is None else source)
