"""Shops that learn together what to offer, with the durable engine.

Run ``python examples/shop.py [PICTURE]``. It starts with an empty database. Shops open over two
simulated days. Each asks every twenty minutes which of a few products to offer. A sale is reported
up to an hour and a half later; no sale is not reported at all. In the middle the process ends and
begins again. The end is a picture (``shops.png``, ``shops.svg``) of what was sold, beside offers at
random and beside shops that learn alone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cobandits import plots
from cobandits.decisions import Decisions
from cobandits.engine import Category, Decide, Decision, Engine, Number, Reward, Schema, Space
from cobandits.policies import Ridge

STEP = 1200  # seconds
SHOPS, DAYS, OFFERS = 30, 2, 5
KINDS = ("tea", "coffee", "juice", "soup", "salad", "cake")
SCHEMA = Schema(
    context={"warm": Number(missing="error")},
    arm={
        "price": Number(centre=3.0, missing="error"),
        "sweet": Number(missing="error"),
        "size": Number(missing="error"),
        "kind": Category(values=KINDS, unknown="error", missing="error"),
    },
    crosses="all",
)
WAITS = 4  # steps after which a sale is known at the latest, and a window ends

Product = dict[str, Any]


class World:
    """Customers: what they like differs from shop to shop, in two ways only."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        traits = self._rng.standard_normal((2, SCHEMA.dim))
        self._likes = self._rng.standard_normal((SHOPS, 2)) @ traits  # (shop, d)

    def requests(self, step: int) -> Iterator[tuple[int, dict[str, Any], list[Product]]]:
        """Yield the shops that are open, the weather, and what is in stock."""
        warm = float(np.sin(step / 72 * 2 * np.pi) + 0.3 * self._rng.normal())
        for shop in range(min(SHOPS, 3 + step // 3)):
            yield shop, {"warm": round(warm, 2)}, [self._product(n) for n in range(OFFERS)]

    def _product(self, n: int) -> Product:
        price, sweet, size = self._rng.uniform((1, -1, -1), (5, 1, 1)).round(2).tolist()
        kind = KINDS[self._rng.integers(len(KINDS))]
        return {"id": f"{kind} {n}", "price": price, "sweet": sweet, "size": size, "kind": kind}

    def sales(self, shop: int, weather: dict[str, Any], stock: list[Product]) -> Any:
        """Return whether each of the products would be sold, (OFFERS,)."""
        phi = SCHEMA.encode([without_id(one) for one in stock], context=weather)
        chance = 1 / (1 + np.exp(-2 * phi @ self._likes[shop] + 1))
        return self._rng.random(OFFERS) < chance


def without_id(product: Product) -> Product:
    """Return what the schema knows of a product."""
    return {name: value for name, value in product.items() if name != "id"}


class Alone:
    """Each shop by itself, in memory: ridge regression, told when windows end as the engine is."""

    def __init__(self) -> None:
        self._policy, self._rng = Ridge(dim=SCHEMA.dim), np.random.default_rng(0)
        self._waiting: list[tuple[int, list[int], Any, Decisions, list[float]]] = []

    def play(
        self, step: int, shop: int, weather: dict[str, Any], stock: list[Product], sold: Any
    ) -> float:
        """Decide for a shop, and learn what is known by now; return what was sold."""
        while self._waiting and self._waiting[0][0] <= step:
            self._policy.learn(*self._waiting.pop(0)[1:])
        arms = SCHEMA.encode([without_id(one) for one in stock], context=weather)[None]
        made = self._policy.decide([shop], arms, self._rng)
        reward = float(sold[made.chosen[0]])
        self._waiting.append((step + WAITS + 1, [shop], arms, made, [reward]))
        return reward


class Together:
    """The engine: one step is one call; sales are told when they are known."""

    def __init__(self, path: Path) -> None:
        self.now, self._path = 1_800_000_000.0, path
        self._later: dict[int, list[Reward]] = {}
        self.engine, self.space = self._opened()

    def _opened(self) -> tuple[Engine, Space]:
        engine = Engine.open(self._path, clock=lambda: self.now)
        space = engine.space(
            "offers", SCHEMA, window=WAITS * STEP, default_reward=0.0, floor=0.02, seed=1
        )
        return engine, space

    def restart(self) -> None:
        """End the process, so to speak: all that counts is on disk."""
        self.engine.close()
        self.engine, self.space = self._opened()

    def play(self, step: int, asked: list[tuple[Decide, Any]]) -> float:
        """Decide for all shops, and tell the sales of earlier decisions; return what was sold."""
        self.now += STEP
        self.engine.settle()  # twenty minutes are long enough to learn what is known
        told = self._later.pop(step, [])
        answers = self.space.ask([*told, *(decide for decide, _ in asked)])
        earned = 0.0
        for made, (decide, sold) in zip(answers[len(told) :], asked, strict=True):
            assert isinstance(made, Decision)
            places = [product["id"] for product in decide.arms]
            if sold[places.index(made.arm)]:
                earned += 1
                later = step + 1 + made.number % WAITS
                self._later.setdefault(later, []).append(Reward(decision=made.id, value=1.0))
        return earned


def main(picture: str = "shops") -> dict[str, float]:
    """Play two days, draw what was sold, and return the sales of each way."""
    world, alone = World(), Alone()
    sold: dict[str, list[float]] = {"together": [], "alone": [], "random": []}
    with tempfile.TemporaryDirectory() as folder:
        together = Together(Path(folder, "shops.db"))
        steps = DAYS * 86_400 // STEP
        for step in range(steps):
            if step == steps // 2:
                together.restart()
            requests = [(*one, world.sales(*one)) for one in world.requests(step)]
            asked = [
                (Decide(task=f"shop {shop}", context=weather, arms=stock), sales)
                for shop, weather, stock, sales in requests
            ]
            sold["together"].append(together.play(step, asked))
            sold["alone"].append(sum(alone.play(step, *one) for one in requests))
            sold["random"].append(sum(float(sales.mean()) for *_, sales in requests))
        together.now += 2 * WAITS * STEP  # the last windows end
        together.engine.settle()
        print(together.space.report())
        print(together.engine.verify())
        together.engine.close()
    written = plots.save(draw(sold), picture)
    totals = {name: float(sum(values)) for name, values in sold.items()}
    print(", ".join(f"{name}: {total:.0f} sold" for name, total in totals.items()))
    print(f"drawn: {', '.join(map(str, written))}")
    return totals


def draw(sold: dict[str, list[float]]) -> Figure:
    """Draw the sales so far, more than offers at random would have made."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot()
    hours = np.arange(len(sold["random"])) * STEP / 3600
    for name in ("together", "alone"):
        gain = np.cumsum(sold[name]) - np.cumsum(sold["random"])
        axes.plot(hours, gain, label=f"shops that learn {name}")
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="hours", ylabel="sold, more than at random")
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
