"""Requests that are read straight from their text: as by the general way, or left to it."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits.engine import Decide, Decision, Engine, Number, Prepared, Schema, vectors
from cobandits.engine.codec import decoded
from cobandits.engine.encoding import features, prepared, read
from cobandits.engine.settings import VECTOR
from cobandits.errors import DataError
from cobandits.schema import Vector
from cobandits.wire import DecideOne

pytestmark = pytest.mark.skipif(not vectors.COMPILED, reason="the extension is not built here")

PLANE = Schema(arm={VECTOR: Vector(size=2, missing="error")})
LINE = Schema(arm={VECTOR: Vector(size=1, missing="error")})
ARM = '{"id":"a","features":[1.0,2]}'
READER = msgspec.json.Decoder(DecideOne)


def general(text: bytes, schema: Schema) -> Prepared | None:
    """Return a request as it is read without the short way, None if it is refused."""
    try:
        asked = READER.decode(text)
        return prepared(Decide(**msgspec.structs.asdict(asked)), schema, plain=True)
    except (msgspec.MsgspecError, UnicodeDecodeError, DataError):
        return None


def check_same(text: bytes, schema: Schema) -> bool:
    """Compare both ways; tell whether the short one has read the text."""
    found = read(text, schema)
    if found is None:
        return False
    (one,), expected = found, general(text, schema)
    assert expected is not None
    assert decoded(one.text) == decoded(text)
    assert one.phi.tobytes() == features(decoded(one.text), schema).tobytes()
    assert one.phi.tobytes() == expected.phi.tobytes()
    same = ("id", "task", "ids", "n_available", "baseline", "held", "schema")
    assert all(getattr(one, name) == getattr(expected, name) for name in same)
    assert one.available.tolist() == expected.available.tolist()
    return True


def of_number(text: str) -> bytes:
    return f'{{"task":"t","arms":[{{"id":"a","features":[{text}]}}]}}'.encode()


# ---- Numbers


@given(st.floats(-1e60, 1e60, allow_nan=False) | st.integers(-(2**70), 2**70))
def test_numbers_have_the_bits_that_json_gives(number: float) -> None:
    check_same(of_number(json.dumps(number)), LINE)


@given(
    whole=st.integers(0, 2**64),
    fraction=st.text("0123456789", max_size=22),
    exponent=st.integers(-40, 40) | st.none(),
    sign=st.sampled_from(["", "-"]),
)
def test_decimals_have_the_bits_that_json_gives(
    whole: int, fraction: str, exponent: int | None, sign: str
) -> None:
    text = f"{sign}{whole}{'.' if fraction else ''}{fraction}"
    check_same(of_number(text if exponent is None else f"{text}e{exponent:+d}"), LINE)


@given(st.floats(1e-4, 1e3), st.integers(-2, 2))
def test_decimals_next_to_the_middle_of_two_doubles_are_rounded_as_by_json(
    number: float, off: int
) -> None:
    middle = (Fraction(number) + Fraction(float(np.nextafter(number, np.inf)))) / 2
    digits = 18 - len(str(int(number)))
    near = int(middle * 10**digits) + off
    text = f"{near // 10**digits}.{near % 10**digits:0{digits}d}"
    assert check_same(of_number(text), LINE)


@pytest.mark.parametrize("number", [0.1, -2.5, 1e22, 1.0, 123456.789, 0.30000000000000004, 5e-5])
def test_usual_numbers_are_read(number: float) -> None:
    assert check_same(of_number(json.dumps(number)), LINE)


@pytest.mark.parametrize(
    "text",
    [
        *("-0", "-0.0", "01", "1.", ".5", "+1", "1e", "1e+", "--1", "NaN", "1e400", "0e-25"),
        *("null", "true", "[1]", "1,", ",1", "1e0001", "0x1", "1_0", "1.5.5", '"1"', "1 2", ""),
        "12345678901234567890",
    ],
)
def test_odd_numbers_are_read_as_json_or_left(text: str) -> None:
    assert not check_same(of_number(text), LINE)


# ---- Texts


@pytest.mark.parametrize(
    "text",
    [
        f'{{"task":"t","arms":[{ARM}]}}',
        f' {{ "arms" : [ {ARM} ] ,\n"task"\t:\r"t" }} ',
        '{"task":"K\u00f6ln \U0001f600","arms":[{"features":[1,2],"id":"\u00e9"}]}',
    ],
)
def test_plain_requests_are_read(text: str) -> None:
    assert check_same(text.encode(), PLANE)


@pytest.mark.parametrize(
    "text",
    [
        *(f'{{{more},"task":"t","arms":[{ARM}]}}' for more in ('"task":"no"', '"held":false')),
        *(f'{{"task":"t","arms":[{ARM}],{more}}}' for more in ('"id":"x"', '"exclude":[]', "")),
        f'{{"task":"","arms":[{ARM}]}}',
        f'{{"task":"\\u00e9","arms":[{ARM}]}}',
        f'{{"task":1,"arms":[{ARM}]}}',
        f'{{"task":"{"t" * 2000}","arms":[{ARM}]}}',
        '{"task":"t","arms":[]}',
        '{"task":"t"}',
        f'{{"arms":[{ARM}]}}',
        f'{{"task":"t","arms":[{ARM},{ARM}]}}',
        f'{{"task":"t","arms":[{ARM}]}}{{}}',
        f'{{"task":"t","arms":[{ARM}]',
        f'{{"task":"t","arms":[{ARM}]}}{" " * 10}\0',
        f'{{"task":"t",{" " * 1000}"arms":[{ARM}]}}',
        '{"task":"t","arms":[{"features":[1,2]}]}',
        '{"task":"t","arms":[{"id":"a"}]}',
        '{"task":"t","arms":[{"id":"a","features":[1]}]}',
        '{"task":"t","arms":[{"id":"a","features":[1,2,3]}]}',
        '{"task":"t","arms":[{"id":"a","features":[1,2],"price":1}]}',
        '{"task":"t","arms":[{"id":"a","id":"b","features":[1,2]}]}',
        "[]",
        "",
    ],
)
def test_others_are_left(text: str) -> None:
    assert read(text.encode(), PLANE) is None


def test_texts_that_are_no_utf_8_are_left() -> None:
    for wrong in (b"\xff", b"\xed\xa0\x80", b"\xc3"):
        assert read(b'{"task":"%b","arms":[%b]}' % (wrong, ARM.encode()), PLANE) is None


def test_schemas_with_other_fields_are_left() -> None:
    text = f'{{"task":"t","arms":[{ARM}]}}'.encode()
    more = Schema(arm={VECTOR: Vector(size=2, missing="error"), "price": Number()})
    assert read(text, more) is None
    assert read(text, Schema(arm={VECTOR: Vector(size=2)})) is None


def test_without_the_extension_all_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "COMPILED", False)
    assert read(f'{{"task":"t","arms":[{ARM}]}}'.encode(), PLANE) is None


def test_changed_texts_are_read_as_json_or_left() -> None:
    rng, signs = random.Random(7), b'{}[],:" \t\\\0019.e-+truenull\xc3\xa9'
    start = f'{{"task": "tea", "arms": [{ARM}, {{"features": [-0.5e1, 3], "id": "b"}}]}}'.encode()
    n_read = 0
    for _ in range(20_000):
        text = bytearray(start)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            text[at : at + rng.randrange(2)] = bytes([rng.choice(signs)]) * rng.randrange(2)
        n_read += check_same(bytes(text), PLANE)
    assert n_read > 1000


# ---- Batches


def batch(*texts: str) -> bytes:
    return f'{{"decisions": [{", ".join(texts)}]}}'.encode()


def test_requests_of_a_batch_keep_their_own_texts() -> None:
    other = '{"features": [3, 0.1], "id": "b"}'
    texts = [f'{{"task":"t","arms":[{ARM}]}}', f'{{"arms": [{other}, {ARM}], "task": "u"}}']
    found = read(batch(*texts), PLANE, many=True)
    assert found is not None
    for one, text in zip(found, texts, strict=True):
        (alone,) = read(text.encode(), PLANE) or []
        assert (one.text, one.task, one.ids) == (text, alone.task, alone.ids)
        assert one.phi.tobytes() == alone.phi.tobytes()


def test_batches_with_anything_else_are_left() -> None:
    fine = f'{{"task":"t","arms":[{ARM}]}}'
    assert read(batch(fine), PLANE, many=True) is not None
    assert read(batch(fine), PLANE) is None
    assert read(fine.encode(), PLANE, many=True) is None
    for wrong in (batch(), batch(fine, "1"), batch(fine, '{"task":"t"}'), batch(fine)[:-1]):
        assert read(wrong, PLANE, many=True) is None
    assert read(batch(fine).replace(b"}]}", b'}],"more":1}'), PLANE, many=True) is None


# ---- The log


def test_decisions_whose_text_is_kept_are_made_again_with_the_same_bits(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        body = '{"arms" : [{"features": [1e0, -0.50], "id": "\u00e9"},\n'
        body += '{"id": "b", "features": [1, 2.30000000000000004]}], "task": "t"}'
        asked = space.read(body.encode())
        assert asked is not None
        made = [one for _ in range(40) for one in space.submit(asked).result()]
        decided = [one for one in made if isinstance(one, Decision)]
        assert len(decided) == 40
        for one in decided:
            space.reward(one.id, float(one.arm == "b"))
        engine.settle()
        event = list(space.events(kinds=("decision",)))[-1]
        assert (event.body or "").startswith(f'{{"request":{body},"choice":')
        assert space.recompute(decided[-1].id).arm == decided[-1].arm
        assert engine.verify().ok
