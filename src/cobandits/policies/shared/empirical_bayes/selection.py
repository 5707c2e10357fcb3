"""Select hyperparameters by how well they predict rewards before these are learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cobandits.archives import Header
from cobandits.fast_checks import add_errors, are_codes
from cobandits.policies.shared import config, reward_config
from cobandits.policies.shared.empirical_bayes.calibration import Calibration
from cobandits.policies.shared.empirical_bayes.fit import first_hyperparameters
from cobandits.policies.shared.empirical_bayes.fitted import PriorFit, Priors
from cobandits.policies.shared.empirical_bayes.hyperparameters import (
    CHOICES,
    Hyperparameters,
    candidate_numbers,
    candidates,
)
from cobandits.policies.shared.empirical_bayes.prior import Prior, Products
from cobandits.policies.shared.reader import Part, Reader, refused
from cobandits.policies.shared.row_store import NEW

__all__ = ["HyperparameterSelector"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Losses = Callable[[Doubles, Doubles], Doubles]

_N_ERRORS = 3 * len(CHOICES)
_OFFSETS = slice(len(CHOICES), 2 * len(CHOICES))  # of the errors: those without and with an offset
_N_RECENT = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class HyperparameterSelector:
    """Progressive validation of candidates: each predicts rewards before they are learned.

    From one refit to the next, every candidate predicts with the thetas that it would have learned.
    Hyperparameters are selected one at a time: each value is tried with the others as they are. The
    first reward of a task says whether there is an offset, and nothing of what is shared.

    The same errors bound the noise of the next fit. The bound is a share of the mean squared error
    of the prior that shares. The share grows where errors are larger than the policy expects, as
    where directions fit noise, and falls where they are smaller.

    They also say how honest variances are. A prior that was fitted takes its directions for known;
    so all its variances, the noise among them, are scaled by one factor, which leaves posterior
    means as they are.
    """

    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)
    priors: Priors | None = None  # of the last fit
    errors: Doubles = field(default_factory=lambda: np.zeros(_N_ERRORS))  # sums of squares
    places: Codes = field(default_factory=lambda: np.zeros(0, np.int64))  # by slot, -1 for none
    thetas: Doubles = field(default_factory=lambda: np.zeros((0, 0, 0)))  # (place, candidate, d+1)
    newcomers: Doubles = field(default_factory=lambda: np.zeros((0, 0)))  # (candidate, d+1)
    noise_share: float = config.NOISE_SHARE
    noise: float = 0.0  # of the prior in use, before any factor
    spread: float = 1.0  # factor of the variances of the prior in use
    recent: Doubles = field(default_factory=lambda: np.zeros(_N_RECENT))  # see scored
    calibration: Calibration | None = None  # of the prior in use; None where nothing is known

    def scored(
        self,
        slots: Codes,
        rows: Doubles,
        squares: Doubles,
        expected: Doubles,
        losses: Losses | None = None,
    ) -> HyperparameterSelector:
        """Return the selector with the errors of new rows ``[phi, 1, y]``, (m, d + 2), added.

        ``squares``, (m,), are the squared errors that the policy made, ``expected``, (m,), those
        that it expected. ``losses`` are of linear predictors, (m, candidates), and rewards, (m, 1);
        candidates have squared errors without them.
        """
        if self.priors is None:
            return self
        if are_codes(slots, len(self.places)):
            places = self.places[slots]
        else:
            held = (slots >= 0) & (slots < len(self.places))
            places = np.full(len(slots), -1)
            places[held] = self.places[slots[held]]
        errors = np.zeros(self.thetas.shape[1])
        if losses is None:
            add_errors(errors, self.thetas, places, rows)
        else:
            held = places >= 0
            predicted = np.einsum("mcd,md->mc", self.thetas[places[held]], rows[held, :-1])
            errors += losses(predicted, rows[held, -1:]).sum(axis=0)
        numbers = candidate_numbers(self.hyperparameters)
        validated = np.count_nonzero(places >= 0)
        recent = [validated, errors[numbers[1]], len(rows), squares.sum(), expected.sum()]
        errors = self.errors + errors[numbers]
        if losses is None and len(self.newcomers):
            first = rows[slots == NEW]
            of_first = (first[:, -1:] - first[:, :-1] @ self.newcomers.T) ** 2
            errors[_OFFSETS] += of_first.sum(axis=0)[numbers[_OFFSETS]]
        known = self.calibration and self.calibration.scored(*recent[:2])
        return replace(self, errors=errors, recent=self.recent + recent, calibration=known)

    def best(self, rows: Products) -> Hyperparameters:
        """Return the hyperparameters with the least errors so far, for all rows.

        Tasks that share go on while that is no worse. Where arms repeat, both priors come to know
        the arms that are taken, and errors no longer tell them apart; yet of the other arms only
        what is shared is known.
        """
        if self.priors is None and self.hyperparameters.noise is None:
            return first_hyperparameters(rows)
        alone, shared, without, offset, full, clear = self.errors
        used = self.hyperparameters
        if self.hyperparameters.noise is not None:  # errors are negative log-likelihoods
            least = reward_config.AS_GOOD_NATS
            better, clearer = bool(alone > shared + least), bool(full > clear + least)
            return used._replace(shared=better, clear=clearer) if alone or shared else used
        if alone or shared:  # else nothing was predicted yet
            least = 1.0 if used.shared else config.AS_GOOD
            better, clearer = alone > least * shared, full > config.AS_GOOD * clear
            used = used._replace(shared=bool(better), clear=bool(clearer))
        if without or offset:  # a change of it discards all errors, so it must be worth it
            bound = 1 / config.CLEARLY_WORSE if used.offset else config.CLEARLY_WORSE
            used = used._replace(offset=bool(without > bound * offset))
        return used

    def scaled(self, prior: Prior) -> Prior:
        """Return a prior with all variances scaled, so that errors are as large as expected."""
        C, s = self.spread * prior.covariance, self.spread * prior.noise
        return replace(prior, covariance=C, noise=s)

    def start(self, hyperparameters: Hyperparameters) -> Priors | None:
        """Return the priors that the next fit starts from, None where it starts afresh.

        What was learned with another offset explains the mean of all rewards by thetas, or not.
        """
        return self.priors if hyperparameters.offset == self.hyperparameters.offset else None

    @property
    def least_noise(self) -> float | None:
        """The least variance of the noise in the next fit, None where nothing was predicted."""
        count, errors = self.recent[:2]
        return float(self.next_share * errors / count) if count > 0 else None

    @property
    def recent_error(self) -> float:
        """Mean squared error of the policy's own predictions of late; 0 before there are any."""
        n, squares = self.recent[2:4]
        return float(squares / n) if n > 0 else 0.0

    @property
    def next_share(self) -> float:
        """The share of errors that bounds the noise, as it is from the next fit on."""
        squares, expected = self.recent[3:]
        if not self.hyperparameters.shared:  # directions that predict badly may have fitted noise
            return config.NOISE_SHARES[1]
        if not expected > 0:
            return self.noise_share
        return float(
            np.clip(self.noise_share * self.spread * squares / expected, *config.NOISE_SHARES)
        )

    def next_spread(self, noise: float) -> float:
        """Return by which factor the latest errors exceeded what was expected, the noise apart.

        It is at least 1, and what may be chance is left out. Errors that are smaller than expected
        are a matter of the noise, which the fit has learned since: ``noise`` is what it found.
        """
        n, squares, expected = self.recent[2:]
        if self.priors is None or n < config.SPREAD_REWARDS or self.hyperparameters.noise:
            return self.spread
        told, found = expected / n / self.spread - self.noise, squares / n - noise
        chance = squares / n * np.sqrt(2 / n)  # standard error of the mean square
        return float(np.clip((found - chance) / told, *config.SPREADS)) if told > 0 else 1.0

    def following(self, hyperparameters: Hyperparameters, fit: PriorFit) -> HyperparameterSelector:
        """Return the selector after a refit: candidates predict with thetas of the new fit."""
        comparable = hyperparameters.offset == self.hyperparameters.offset
        places = np.full(fit.slots.max(initial=-1) + 1, -1)
        places[fit.slots] = np.arange(len(fit.slots))
        tried, noise = candidates(hyperparameters), fit.chosen(hyperparameters).factors.noise
        return HyperparameterSelector(
            hyperparameters=hyperparameters,
            priors=fit.following(hyperparameters),
            errors=config.ERROR_DISCOUNT * self.errors if comparable else np.zeros(_N_ERRORS),
            places=places,
            thetas=np.stack([fit.thetas(one) for one in tried], axis=1),
            newcomers=np.stack([fit.expected_theta(one) for one in tried]),
            noise_share=self.next_share,
            noise=noise,
            spread=self.next_spread(noise),
            recent=config.RECENT_DISCOUNT * self.recent if comparable else np.zeros(_N_RECENT),
            calibration=fit.calibration(hyperparameters, self.calibration if comparable else None),
        )

    def joined(self, others: Sequence[HyperparameterSelector]) -> HyperparameterSelector:
        """Return what this and the selectors of other shards say together; thetas stay there."""
        all_of = (self, *others)
        return replace(
            self.without_thetas,
            errors=np.sum([one.errors for one in all_of], axis=0),
            recent=np.sum([one.recent for one in all_of], axis=0),
        )

    def without(self, slots: Codes) -> HyperparameterSelector:
        """Return the selector without the thetas of some slots, which nothing predicts any more."""
        known = slots[slots < len(self.places)]
        places = self.places.copy()
        places[known] = -1
        staying = np.sort(places[places >= 0])
        places[places >= 0] = np.searchsorted(staying, places[places >= 0])
        return replace(self, places=places, thetas=self.thetas[staying])

    @property
    def without_thetas(self) -> HyperparameterSelector:
        """The selector without anything of a single task."""
        return replace(self, places=np.zeros(0, np.int64), thetas=np.zeros((0, 0, 0)))

    def saved(self) -> Part:
        """Return what a checkpoint holds of it; of priors, what differs from the one in use."""
        names = ("errors", "thetas", "places", "recent", "newcomers")
        arrays = {name: getattr(self, name) for name in names}
        numbers: Header = {
            "hyperparameters": self.hyperparameters._asdict(),
            "noise_share": self.noise_share,
            "noise_in_use": self.noise,
            "spread": self.spread,
        }
        if self.priors is not None:
            shared, alone = self.priors
            arrays |= {
                "covariance": shared.covariance,
                "mean": shared.mean,
                "alone_mean": alone.mean,
            }
            numbers |= {"offset": shared.offset, "noise": shared.noise}
            numbers |= {"alone_offset": alone.offset, "alone_noise": alone.noise}
            numbers |= {"alone_variance": float(alone.covariance[0, 0])}
        if self.calibration is not None:
            arrays["calibration"] = self.calibration.numbers
        return Part(numbers, arrays)

    @classmethod
    def read(cls, reader: Reader, *, prior: Prior | None, n_slots: int) -> HyperparameterSelector:
        """Read what :meth:`saved` returned; ``prior`` is the one in use, if there is one yet."""
        known = reader.plain("hyperparameters")
        used = Hyperparameters(
            shared=bool(known["shared"]),
            offset=bool(known["offset"]),
            noise=known["noise"],
            clear=bool(known.get("clear")),
        )
        older = "clear" not in known  # files of the first policies of this version
        errors = reader.doubles("errors", (4 if older else _N_ERRORS,))
        selector = cls(
            hyperparameters=used,
            errors=np.pad(errors, (0, _N_ERRORS - len(errors))),
            noise_share=reader.variance("noise_share"),
            spread=reader.variance("spread"),
            recent=reader.doubles("recent", (_N_RECENT,)),
            calibration=Calibration.read(reader),
        )
        if prior is None:
            return selector
        priors, shape = Priors.read(reader, prior), (len(candidates(used)), len(prior.theta))
        if older:  # they had other candidates, so nothing is predicted until the next refit
            noise = (priors.shared if used.shared else priors.alone).noise
            thetas, newcomers = np.zeros((0, *shape)), np.zeros((0, shape[1]))
            return replace(selector, priors=priors, noise=noise, thetas=thetas, newcomers=newcomers)
        selector = replace(selector, priors=priors, noise=reader.variance("noise_in_use"))
        return _with_thetas(selector, reader, shape, n_slots)


def _with_thetas(
    selector: HyperparameterSelector, reader: Reader, shape: tuple[int, int], n_slots: int
) -> HyperparameterSelector:
    """Return a selector with the thetas of its candidates, (candidates, d + 1) of each task."""
    places = reader.codes("places", (None,), least=-1)
    thetas = reader.doubles("thetas", (None, *shape))
    newcomers = reader.doubles("newcomers", (None, shape[1]))
    if not np.array_equal(np.sort(places[places >= 0]), np.arange(len(thetas))):
        raise refused(f"selector.places that are not those of {len(thetas)} thetas")
    if len(places) > n_slots:
        raise refused(f"selector.places of {len(places)} slots, there are {n_slots}")
    if len(newcomers) not in (0, shape[0]):
        raise refused(f"selector.newcomers of {len(newcomers)}, there are {shape[0]}")
    return replace(selector, places=places, thetas=thetas, newcomers=newcomers)
