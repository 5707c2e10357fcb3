"""Where rows come from."""

from cobandits.environments.synthetic import Problem, Synthetic

__all__ = ["Problem", "Synthetic"]
