"""What rewards are taken to be, as they come: any numbers, with outliers, clicks or counts."""

from __future__ import annotations

from dataclasses import replace

from cobandits.policies.shared import reward_config
from cobandits.policies.shared.forgetful import ForgetfulPrior
from cobandits.policies.shared.likelihoods import LIKELIHOODS, Likelihood
from cobandits.policies.shared.pending import Pending
from cobandits.policies.shared.state import State
from cobandits.policies.shared.working_rows import first_selector, reinterpreted, suitable

__all__ = ["decided", "taken_for"]


def decided(state: State, news: Pending) -> State:
    """Return the state with the likelihood that its rewards suggest, where it may choose.

    Rewards that are said to be clicks are learned as such once there are enough of them.
    """
    if state.kind not in ("auto", "binary") or state.likelihood.weighs:
        return state
    if state.kind == "binary":
        enough = state.store.reward_products()[0, 0] >= reward_config.FEWEST_TO_TELL
        return taken_for(state, LIKELIHOODS["binary"]) if enough else state
    if not state.whole:
        enough = max(reward_config.FEWEST_OUTLIERS, reward_config.OUTLIER_SHARE * state.judged)
        return taken_for(state, LIKELIHOODS["robust"]) if state.outliers > enough else state
    y = news.rows[:, -1]
    low, high = min(state.lowest, float(y.min())), max(state.highest, float(y.max()))
    if not LIKELIHOODS["count"].admits(y):
        return state
    likelihood = suitable(state.store, low, high)
    return state if likelihood is state.likelihood else taken_for(state, likelihood)


def taken_for(state: State, likelihood: Likelihood) -> State:
    """Return the state with its rows under another likelihood; all else has to be learned again."""
    return replace(
        state,
        store=reinterpreted(state.likelihood, likelihood, state.store),
        selector=first_selector(likelihood),
        posteriors=None,
        likelihood=likelihood,
        forgetting=state.forgetting.without_thetas,
        forgetful=ForgetfulPrior.none(state.store.width - 2),
        judged=0,
        outliers=0,
    )
