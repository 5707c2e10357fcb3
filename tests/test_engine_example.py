"""The example: thirty shops and two simulated days."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SHOP = Path(__file__).parents[1] / "examples" / "shop.py"


def test_shops_that_learn_together_sell_more(tmp_path: Path) -> None:
    found = importlib.util.spec_from_file_location("shop", SHOP)
    assert found is not None
    assert found.loader is not None
    shop = importlib.util.module_from_spec(found)
    found.loader.exec_module(shop)
    sold = shop.main(str(tmp_path / "shops"))
    assert sold["together"] > 1.3 * sold["random"]
    assert sold["together"] > sold["alone"]
    assert (tmp_path / "shops.svg").read_text().startswith("<?xml")
