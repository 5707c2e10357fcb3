"""Select hyperparameters by how well they predict rewards before these are learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cobandits.archives import Header
from cobandits.fast_checks import add_errors, are_codes
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes.em import (
    EMFit,
    Hyperparameters,
    m_step,
    posterior_means,
)
from cobandits.policies.shared.empirical_bayes.prior import Prior
from cobandits.policies.shared.reader import Part, Reader, refused

__all__ = ["HyperparameterSelector", "candidates"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Losses = Callable[[Doubles, Doubles], Doubles]

# Where the errors of the next hyperparameter begin.
_CUTS = (
    len(config.SHRINKAGE_PSEUDO_TASKS),
    len(config.SHRINKAGE_PSEUDO_TASKS) + len(config.NOISE_SHARES),
)
_N_ERRORS = _CUTS[1] + len(config.OFFSETS)


@dataclass(frozen=True, kw_only=True, eq=False)
class HyperparameterSelector:
    """Progressive validation of candidates: each predicts rewards before they are learned.

    From one refit to the next, every candidate predicts with the thetas that it would have learned.
    Hyperparameters are selected one at a time: each value is tried with the others as they are.
    """

    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)
    prior: Prior | None = None  # of the last fit, which shrinks least
    errors: Doubles = field(default_factory=lambda: np.zeros(_N_ERRORS))  # sums of squares
    places: Codes = field(default_factory=lambda: np.zeros(0, np.int64))  # by slot, -1 for none
    thetas: Doubles = field(default_factory=lambda: np.zeros((0, 0, 0)))  # (place, candidate, d+1)

    def scored(
        self, slots: Codes, rows: Doubles, losses: Losses | None = None
    ) -> HyperparameterSelector:
        """Return the selector with the errors of new rows ``[phi, 1, y]``, (m, d + 2), added.

        ``losses`` are of linear predictors, (m, candidates), and rewards, (m, 1); else squares.
        """
        if not len(self.thetas):
            return self
        if are_codes(slots, len(self.places)):
            places = self.places[slots]
        else:
            known = (slots >= 0) & (slots < len(self.places))
            places = np.where(known, self.places[np.where(known, slots, 0)], -1)
        errors = np.zeros(self.thetas.shape[1])
        if losses is None:
            add_errors(errors, self.thetas, places, rows)
        else:
            known = places >= 0
            predicted = np.einsum("mcd,md->mc", self.thetas[places[known]], rows[known, :-1])
            errors += losses(predicted, rows[known, -1:]).sum(axis=0)
        return replace(self, errors=self.errors + errors[_numbers(self.hyperparameters)])

    def best(self) -> Hyperparameters:
        """Return the hyperparameters with the least errors so far."""
        if not len(self.thetas):
            return self.hyperparameters
        shrinkage, noise, offset = np.split(self.errors, _CUTS)
        if self.hyperparameters.noise is not None:  # errors are log-likelihoods
            as_good = np.flatnonzero(shrinkage <= shrinkage.min() + config.AS_GOOD_NATS)
            best = config.SHRINKAGE_PSEUDO_TASKS[as_good[-1]]
            return self.hyperparameters._replace(shrinkage_pseudo_tasks=best)
        as_good = np.flatnonzero(shrinkage <= config.AS_GOOD * shrinkage.min())
        return Hyperparameters(
            config.SHRINKAGE_PSEUDO_TASKS[as_good[-1]],
            config.NOISE_SHARES[noise.argmin()],
            bool(offset[0] > config.CLEARLY_WORSE * offset[1]),
        )

    def following(self, hyperparameters: Hyperparameters, fit: EMFit) -> HyperparameterSelector:
        """Return the selector after a refit: candidates predict with thetas of the new fit."""
        comparable = hyperparameters.offset == self.hyperparameters.offset
        slots = np.concatenate([block.slots for block in fit.blocks])
        places = np.full(slots.max() + 1, -1)
        places[slots] = np.arange(len(slots))
        thetas = [_thetas(fit, candidate) for candidate in candidates(hyperparameters)]
        return HyperparameterSelector(
            hyperparameters=hyperparameters,
            prior=fit.prior,
            errors=config.ERROR_DISCOUNT * self.errors if comparable else np.zeros(_N_ERRORS),
            places=places,
            thetas=np.stack(thetas, axis=1),
        )

    def saved(self) -> Part:
        """Return what a checkpoint holds of it; of the prior, what differs from the one in use."""
        arrays = {"errors": self.errors, "thetas": self.thetas, "places": self.places}
        numbers: Header = {"hyperparameters": self.hyperparameters._asdict()}
        if self.prior is not None:
            arrays |= {"covariance": self.prior.covariance, "mean": self.prior.mean}
            numbers |= {"offset": self.prior.offset, "noise": self.prior.noise}
        return Part(numbers, arrays)

    @classmethod
    def read(cls, reader: Reader, *, prior: Prior | None, n_slots: int) -> HyperparameterSelector:
        """Read what :meth:`saved` returned; ``prior`` is the one in use, if there is one yet."""
        known = reader.plain("hyperparameters")
        hyperparameters = Hyperparameters(
            shrinkage_pseudo_tasks=float(known["shrinkage_pseudo_tasks"]),
            noise_share=float(known["noise_share"]),
            offset=bool(known["offset"]),
            noise=known.get("noise"),
        )
        if not np.isfinite([one for one in hyperparameters if one is not None]).all():
            raise refused(f"{hyperparameters} as selector.hyperparameters")
        selector = cls(
            hyperparameters=hyperparameters, errors=reader.doubles("errors", (_N_ERRORS,))
        )
        if prior is None:
            return selector
        places = reader.codes("places", (None,), least=-1)
        width = len(prior.coordinates.matrix)
        thetas = reader.doubles("thetas", (None, len(candidates(hyperparameters)), width))
        if not np.array_equal(np.sort(places[places >= 0]), np.arange(len(thetas))):
            raise refused(f"selector.places that are not those of {len(thetas)} thetas")
        if not 0 < len(places) <= n_slots:
            raise refused(f"selector.places of {len(places)} slots, there are {n_slots}")
        least_shrunken = replace(
            prior,
            covariance=reader.doubles("covariance", prior.covariance.shape),
            mean=reader.doubles("mean", prior.mean.shape),
            offset=reader.number("offset"),
            noise=reader.variance("noise"),
        )
        return replace(selector, places=places, thetas=thetas, prior=least_shrunken)


def candidates(hyperparameters: Hyperparameters) -> list[Hyperparameters]:
    """Return all candidates once; the hyperparameters in use are one of them."""
    return list(dict.fromkeys(_all_candidates(hyperparameters)))


def _numbers(hyperparameters: Hyperparameters) -> Codes:
    """Return the index in :func:`candidates` of each value of each hyperparameter."""
    different = candidates(hyperparameters)
    return np.array([different.index(one) for one in _all_candidates(hyperparameters)])


def _all_candidates(used: Hyperparameters) -> list[Hyperparameters]:
    """Return a candidate for each value of each hyperparameter; the one in use comes thrice."""
    shrinkages = config.SHRINKAGE_PSEUDO_TASKS
    known = used.noise is not None  # then the others have one value
    return [
        *(used._replace(shrinkage_pseudo_tasks=value) for value in shrinkages),
        *(used if known else used._replace(noise_share=x) for x in config.NOISE_SHARES),
        *(used if known else used._replace(offset=x) for x in config.OFFSETS),
    ]


def _thetas(fit: EMFit, candidate: Hyperparameters) -> Doubles:
    """Return the thetas with intercept that a candidate would have learned, (place, d + 1)."""
    prior = m_step(fit.prior, fit.statistics, candidate)
    coordinates = np.concatenate([posterior_means(block, prior) for block in fit.blocks])
    return np.asarray(coordinates @ prior.coordinates.matrix.T + prior.theta)
