"""Schemas: the columns that named values become, what is inferred, and what is refused."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits.errors import ConfigurationError, DataError
from cobandits.schema import (
    Category,
    Cyclic,
    Date,
    Field,
    Flag,
    Number,
    Schema,
    Vector,
    infer_fields,
)
from cobandits.schema.dates import parsed


def encoded(field: Field, *values: object) -> list[list[float]]:
    rows: list[list[float]]
    rows = Schema(arm={"x": field}).encode([{"x": value} for value in values]).tolist()
    return rows


# ---- fields


def test_numbers_are_scaled_and_missing_ones_told() -> None:
    assert encoded(Number(), 3, None, 2.5) == [[3, 0], [0, 1], [2.5, 0]]
    filled = Number(fill=7.0, centre=5.0, scale=2.0, missing="fill")
    assert encoded(filled, 9, float("nan")) == [[2], [1]]


def test_categories_have_a_column_a_value_and_one_for_all_others() -> None:
    known = Category(values=("rain", "sun"))
    assert encoded(known, "sun", "hail", None) == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert encoded(Category(values=("a",), unknown="zero", missing="fill"), "b", "a") == [[0], [1]]
    numbers = Category(values=("1", "2"), missing="fill")
    assert encoded(numbers, 2.0, "1") == [[0, 1, 0], [1, 0, 0]]


@given(st.lists(st.text(), min_size=1))
def test_any_text_is_hashed_to_one_of_the_buckets(texts: list[str]) -> None:
    rows = np.array(encoded(Category(buckets=5, missing="fill"), *texts))
    assert rows.shape == (len(texts), 5)
    assert (rows.sum(axis=1) == 1).all()
    for text, row in zip(texts, rows, strict=True):  # the same in another request
        assert encoded(Category(buckets=5, missing="fill"), text) == [row.tolist()]


def test_hours_are_places_on_a_circle() -> None:
    midnight, noon, late = np.array(encoded(Cyclic(missing="fill"), 0, 12, 24))
    np.testing.assert_allclose(midnight, late, atol=1e-12)
    np.testing.assert_allclose(midnight, -noon, atol=1e-12)


def test_dates_have_a_trend_and_places_in_year_week_and_day() -> None:
    field = Date(missing="error")
    assert field.names("t") == (
        "t trend", "t year sin", "t year cos", "t week sin", "t week cos", "t day sin", "t day cos",
    )  # fmt: skip
    moment = datetime.datetime(2026, 3, 2, 6, tzinfo=datetime.UTC)
    day, week = datetime.timedelta(days=1), datetime.timedelta(days=7)
    base, next_day, next_week = np.array(encoded(field, moment, moment + day, moment + week))
    np.testing.assert_allclose(next_day[5:], base[5:], atol=1e-9)
    np.testing.assert_allclose(base[5:], [1, 0], atol=1e-9)  # six o'clock: a quarter of a day
    np.testing.assert_allclose(next_week[3:], base[3:], atol=1e-9)
    np.testing.assert_allclose(np.arctan2(*base[3:5]), 2 * np.pi * 0.25 / 7)  # a Monday morning
    assert next_week[0] - base[0] == pytest.approx(7 / 365.2425)
    same: list[object] = ["2026-03-02T06:00:00Z", "2026-03-02T08:00:00+02:00", moment]
    for row in encoded(field, *same, np.datetime64("2026-03-02T06:00")):
        np.testing.assert_allclose(row, base)


def test_flags_and_vectors() -> None:
    assert encoded(Flag(), True, 0, None) == [[1, 0], [0, 0], [0, 1]]
    assert encoded(Vector(size=2), [1, 2], None) == [[1, 2, 0], [0, 0, 1]]


# ---- schemas


def shop() -> Schema:
    return Schema(
        context={"rain": Flag(missing="error"), "hour": Number(missing="error")},
        arm={"kind": Category(values=("hot", "cold"), unknown="error", missing="error")},
        crosses=[("rain", "kind")],
    )


def test_context_enters_through_crosses_alone() -> None:
    schema = shop()
    assert schema.names == ("kind=hot", "kind=cold", "rain * kind=hot", "rain * kind=cold")
    assert schema.dim == 4
    arms, context = [{"kind": "hot"}, {"kind": "cold"}], {"rain": True, "hour": 3}
    expected = [[1, 0, 1, 0], [0, 1, 0, 1]]
    assert schema.encode(arms, context).tolist() == expected
    assert schema.encode([{**context, **arm} for arm in arms]).tolist() == expected
    every = Schema(context=schema.context, arm=schema.arm, crosses="all")
    assert every.dim == 2 + 2 * 2


def test_rows_columns_and_frames_are_the_same() -> None:
    columns = {"kind": ["hot", "cold"], "rain": [True, False], "hour": [3, 4]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    expected = shop().encode(rows).tolist()
    assert shop().encode(columns).tolist() == expected
    assert shop().encode(pl.DataFrame(columns)).tolist() == expected
    pandas: Any = pl.DataFrame(columns).to_pandas()
    assert shop().encode(pandas).tolist() == expected


def test_a_schema_is_json_and_back() -> None:
    schema = Schema(
        context={"hour": Cyclic(), "day": Date(parts=("week",), origin=3.0)},
        arm={"kind": Category(values=("a", "b")), "v": Vector(size=3), "n": Number(scale=2.0)},
        crosses="all",
    )
    given = json.loads(json.dumps(schema.to_dict()))
    assert given["version"] == 1
    again = Schema.from_dict(given)
    assert again == schema
    assert again.names == schema.names
    short = {"arm": {"kind": {"type": "category", "values": ["x"]}}}
    assert Schema.from_dict(short).names == ("kind=x", "kind=other", "kind is missing")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"arm": {"a": {"type": "nope"}, "b": {"type": "number", "size": 3}}}, ["a: type", "b: "]),
        ({"arm": {"a": {"type": "number", "scale": 0}}}, ["a: ", "scale above 0"]),
        ({"arm": {"a": {"type": "vector"}}}, ["a: ", "size"]),
        ({"arm": {"a": {"type": "number"}}, "more": 1}, ["unknown more"]),
        ({"arm": {"a": {"type": "number"}}, "version": 2}, ["version 2"]),
        ({"arm": {}}, ["at least one field"]),
        (
            {"arm": {"a": {"type": "number", "missing": "error", "usual": [1, 2]}}},
            ["a: usual must be 1 finite numbers", "got [1, 2]"],
        ),
        (
            {"arm": {"a": {"type": "number", "missing": "error", "usual": [float("nan")]}}},
            ["a: usual", "got [nan]"],
        ),
        ({"arm": {"a": {"type": "flag"}}, "crosses": [["a", "z"]]}, ["cross", "z"]),
        ({"arm": {"a": {"type": "flag"}}, "context": {"a": {"type": "flag"}}}, ["alike: a"]),
    ],
)
def test_schemas_that_cannot_be_are_refused(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Schema.from_dict(given)
    assert all(word in str(refused.value) for word in words)


def test_all_problems_are_in_one_message() -> None:
    rows = [{"kind": "hot", "rain": 7, "hour": "x"}, {"kind": "warm", "hour": 2, "rain": True}]
    with pytest.raises(DataError) as refused:
        shop().encode(rows)
    message = str(refused.value)
    assert "rain: expected true or false, got 7 in row 0" in message
    assert "hour: expected a number, got 'x' in row 0" in message
    assert "kind: expected one of hot, cold, got 'warm' in row 1" in message
    with pytest.raises(DataError, match="rain: 1 value is missing"):
        shop().encode([{"kind": "hot", "hour": 1}])
    with pytest.raises(DataError, match="unknown field 'colour'"):
        shop().encode([{"kind": "hot", "colour": 1}])
    with pytest.raises(DataError, match="colour: unknown"):
        shop().encode([{"kind": "hot"}], {"rain": True, "hour": 1, "colour": 2})
    with pytest.raises(DataError, match="no column rain, hour"):
        shop().encode({"kind": ["hot"]})


# ---- inference


def ordinary(n: int = 60) -> dict[str, list[Any]]:
    start = datetime.date(2025, 1, 1)
    return {
        "id": list(range(n)),
        "price": [None if i % 7 == 0 else 0.5 * i for i in range(n)],
        "size": [i % 4 for i in range(n)],
        "kind": ["tea" if i % 3 else "cola" for i in range(n)],
        "open": [i % 2 == 0 for i in range(n)],
        "day": [(start + datetime.timedelta(days=7 * i)).isoformat() for i in range(n)],
        "city": [f"city {i * i % 43}" for i in range(n)],
        "title": [f"title {i}" for i in range(n)],
        "unit": ["kg"] * n,
        "pair": [[i, 1] for i in range(n)],
    }


def test_fields_are_found_by_themselves() -> None:
    found, schema = infer_fields(ordinary()), Schema.infer(ordinary())
    kinds = {name: type(field) for name, field in schema.arm.items()}
    assert kinds == {
        "price": Number, "size": Number, "kind": Category, "open": Flag, "day": Date,
        "city": Category, "pair": Vector,
    }  # fmt: skip
    assert found.left_out == {
        "id": "row numbers",
        "title": "60 different texts",
        "unit": "constant",
    }
    assert found.missing == {"price": 9}
    assert "categories kind (2 values), city" in str(found)
    assert "missing cells in price (9)" in str(found)
    assert schema.encode(ordinary()).shape == (60, schema.dim)
    assert Schema.infer(pl.DataFrame(ordinary())) == schema
    listed = [
        dict(zip(ordinary(), row, strict=True)) for row in zip(*ordinary().values(), strict=True)
    ]
    assert Schema.infer(listed) == schema


def test_what_is_missing_is_the_mean_with_or_without_a_column_that_tells() -> None:
    prices = [price for price in ordinary()["price"] if price is not None]
    told = Schema.infer({"price": ordinary()["price"]})
    assert told.names == ("price", "price is missing")
    assert told.encode({"price": [None]}).tolist() == [[pytest.approx(np.mean(prices)), 1]]
    mean = Schema.infer({"price": ordinary()["price"]}, missing="mean", standardise=True)
    assert mean.names == ("price",)
    assert mean.encode({"price": [None, 3.0]}).ravel() == pytest.approx(
        [0, (3 - np.mean(prices)) / np.std(prices)]
    )
    with pytest.raises(DataError, match="size: 1 value is missing"):
        Schema.infer({"size": ordinary()["size"]}).encode({"size": [None]})


def test_options_of_inference() -> None:
    table = {"size": ordinary()["size"], "when": [20250101 + i for i in range(60)]}
    schema = Schema.infer(table, categorical=["size"])
    assert schema.arm["size"].names("size") == ("size=0", "size=1", "size=2", "size=3")
    with pytest.raises(DataError, match="when: expected a date such as 2025-01-31, got 2025"):
        Schema.infer(table, dates=["when"])
    with pytest.raises(DataError, match="no feature colour"):
        Schema.infer(table, categorical=["colour"])


def test_rare_values_share_a_column() -> None:
    cities = [f"c{i}" for i in range(50) for _ in range(3)] + ["big"] * 20
    field = Schema.infer({"city": cities}).arm["city"]
    assert isinstance(field, Category)
    assert field.values is not None
    assert len(field.values) == 32
    assert "big" in field.values
    assert field.unknown == "other"


# ---- dates


@pytest.mark.parametrize(
    "text",
    [
        "2025-01-31",
        "2025/01/31",
        "2025.1.31",
        "2025-1-31",
        "31.1.2025",
        "31.01.2025",
        "31/01/2025",
        "1/31/2025",
        "31-01-2025",
        "31 Jan 2025",
        "31-Jan-2025",
        "31st January 2025",
        "Jan 31, 2025",
        "Jan. 31 2025",
        "January 31, 2025",
        "Fri, 31 Jan 2025",
        "Friday, January 31, 2025",
    ],
)
@pytest.mark.parametrize("time", ["", " 14:05", " 14:05:00", " 2:05 PM", " 14:05:00 GMT"])
def test_forms_of_dates_that_can_be_read_in_one_way(text: str, time: str) -> None:
    expected = datetime.datetime(2025, 1, 31, *((14, 5) if time else ()))
    found = parsed(text + time)
    assert found is not None
    assert found.replace(tzinfo=None) == expected
    assert (found.tzinfo is not None) == time.endswith("GMT")


@pytest.mark.parametrize(
    "text",
    [
        *("2/1/2025", "02-01-2025", "1/31/25", "31/31/2025", "0/13/2025", "30 Feb 2025"),
        *("31 Juneau 2025", "Marching 3 2025", "2025", "12:30", "", "1.2.3", "31/01.2025"),
        *("2025-01-31 13:05 PM", "2025/01/31 25:00", "tea"),
    ],
)
def test_what_is_no_date_or_could_be_two_is_not_read(text: str) -> None:
    assert parsed(text) is None


def test_one_day_tells_which_comes_first_in_a_whole_column() -> None:
    days = [f"{1 + i % 28:02}/{1 + i % 12:02}/2025" for i in range(60)]
    schema = Schema.infer({"day": days})
    (field,) = schema.arm.values()
    assert isinstance(field, Date)
    assert field.order == "day"
    iso = [f"2025-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(60)]
    same = Schema.infer({"day": iso}).encode({"day": iso})
    np.testing.assert_array_equal(schema.encode({"day": days}), same)
    again = Schema.from_dict(schema.to_dict())
    later = {"day": ["02/01/2025", "2025-01-02", "2 Jan 2025"]}
    assert np.ptp(again.encode(later), axis=0).max() == 0
    american = [f"{text[3:6]}{text[:3]}2025" for text in days]
    np.testing.assert_array_equal(Schema.infer({"day": american}).encode({"day": american}), same)


def test_days_of_the_number_of_their_month_are_read() -> None:
    same = {"day": ["1/1/2025", "5/5/2025"] * 20}
    iso = {"day": ["2025-01-01", "2025-05-05"] * 20}
    np.testing.assert_array_equal(Schema.infer(same).encode(same), Schema.infer(iso).encode(iso))
    with pytest.raises(DataError, match="from dates such as '3/4/2025'"):
        infer_fields({"day": ["2025-01-01", "1/1/2025", "3/4/2025"] * 20}, dates=["day"])


def test_vectors_are_not_written_where_they_do_not_fit() -> None:
    schema = Schema(arm={"a": Number(missing="error")})
    with pytest.raises(DataError, match=r"out must be of shape \(2, 1\), got \(2, 3\)"):
        schema.encode({"a": [1, 2]}, out=np.empty((2, 3)))


def test_dates_that_could_be_two_are_refused() -> None:
    days = [f"{1 + i % 12:02}/{1 + i % 11:02}/2025" for i in range(60)]
    for named in ((), ("day",)):
        with pytest.raises(DataError, match="day: whether days or months come first") as refused:
            infer_fields({"day": days}, dates=named)
        assert "--categorical" in str(refused.value)
    assert isinstance(infer_fields({"day": days}, categorical=["day"]).fields["day"], Category)
    with pytest.raises(DataError, match="expected a date such as 2025-01-31, got '02/01/2025'"):
        Schema(arm={"day": Date()}).encode([{"day": "02/01/2025"}])
    both = {"day": ["13/01/2025", "01/13/2025"] * 20}
    assert isinstance(infer_fields(both).fields["day"], Category)
    with pytest.raises(ConfigurationError, match="order must be 'day' or 'month'"):
        Schema.from_dict({"arm": {"day": {"type": "date", "order": "year"}}})


@pytest.mark.parametrize("given", [[("kind", "price")], (["kind", "price"],)])
def test_crosses_are_the_same_however_they_are_given(given: Any) -> None:
    rows = [{"kind": "hot", "price": 1.0}, {"kind": "cold", "price": 2.5}]
    schema = Schema.infer(rows, crosses=given)
    assert schema == Schema.infer(rows, crosses=[("kind", "price")])
    assert schema == Schema.from_dict(schema.to_dict())
    assert schema.names[-2:] == ("kind=cold * price", "kind=hot * price")


def test_a_schema_is_inferred_with_what_is_the_same_for_all_arms() -> None:
    rows = [
        {"weather": weather, "product": product, "price": price}
        for weather in ("rain", "sun")
        for product, price in (("tea", 2.0), ("ice", 3.0))
    ]
    schema = Schema.infer(rows, context=["weather"], crosses="all")
    assert (list(schema.context), list(schema.arm)) == (["weather"], ["product", "price"])
    offers = [{"product": "tea", "price": 2.0}, {"product": "ice", "price": 3.0}]
    np.testing.assert_array_equal(
        schema.encode(offers, {"weather": "sun"}), schema.encode(rows)[2:]
    )
    with pytest.raises(DataError, match="no field day for the context; there are: weather, prod"):
        Schema.infer(rows, context=["day"])


def test_a_column_that_is_not_there_is_named_with_what_to_do() -> None:
    schema = Schema.infer({"price": [1.0, 2.0], "kind": ["hot", "cold"]})
    said = "no column kind; there are: price; add it, or leave it out of the schema"
    with pytest.raises(DataError, match=said):
        schema.encode({"price": [1.0]})


def test_values_that_look_alike_are_told() -> None:
    found = infer_fields({"sky": ["rain", "Rain ", "sun"] * 20, "kind": ["a", "b", "a"] * 20})
    assert "differ in case or spaces only: sky ('Rain ' and 'rain')" in str(found)
    assert "case" not in str(infer_fields({"kind": ["a", "b", "a"] * 20}))


def test_the_cell_that_made_text_of_a_column_is_named_alone() -> None:
    schema = Schema(arm={"price": Number()})
    with pytest.raises(DataError, match=r"price: expected a number, got 'cheap' in row 1$"):
        schema.encode({"price": np.array(["2.2", "cheap", "3.5"], object)})
