"""Whatever body comes, the answer is a result or a problem document with a status below 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobandits.wire.limits import BODY
from tests.service import Answer, Running, running

ARM = {"id": "a", "features": [1.0, 2.0]}
PATHS = [
    "/v1/spaces",
    "/v1/spaces/vectors/decisions",
    "/v1/spaces/named/decisions",
    "/v1/spaces/vectors/decisions:batch",
    "/v1/spaces/vectors/decisions/x/rewards",
    "/v1/spaces/vectors/rewards:batch",
    "/v1/keys",
]
NAMED = {
    "name": "named",
    "schema": {
        "arm": {"n": {"type": "number"}, "c": {"type": "category"}, "d": {"type": "date"}},
        "context": {"f": {"type": "flag"}, "h": {"type": "cyclic"}},
        "crosses": "all",
    },
}
NASTY: list[bytes] = [
    b"",
    b"null",
    b"[]",
    b'"text"',
    b"{",
    b'{"task": "t", "arms": [{"id": "a", "features": [NaN, 1]}]}',
    b'{"task": "t", "arms": [{"id": "a", "features": [Infinity, 1]}]}',
    b'{"task": "t", "arms": [{"id": "a", "features": [1e999, 1]}]}',
    b'{"task": "t", "arms": [{"id": "a", "features": [1e308, 1e308]}]}',
    b'{"task": "t", "arms": [{"id": "a", "features": [' + b"9" * 5000 + b", 1]}]}",
    b'{"task": "t", "arms": [{"id": "a", "features": ["x", 2]}]}',
    b'{"task": "t", "arms": [{"id": "a", "features": [true, null]}]}',
    b'{"task": "t", "arms": [{"id": 3, "features": [1, 2]}]}',
    b'{"task": "t", "arms": [{"id": "a", "n": {"x": 1}, "c": [[]], "d": "99999-01-01"}]}',
    b'{"task": "t", "arms": [{"id": "a", "n": "x", "c": {}, "d": -1e300}], "context": {"f": 7}}',
    b'{"task": "t", "arms": [{"id": "a", "n": 1e200}], "context": {"h": 1e300, "z": 1}}',
    b'{"task": "\xff\xfe", "arms": []}',
    b'{"task": "\\ud800", "arms": [{"id": "a", "features": [1, 2]}]}',
    b'{"task": "\\u0000", "arms": [{"id": "\\u0000", "features": [1, 2]}]}',
    b"\xef\xbb\xbf{}",
    b'{"value": NaN}',
    b'{"value": 1e400}',
    b'{"value": ' + b"1" * 400 + b"}",
    b'{"value": 1, "value": 2, "key": ""}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"task": "t", "arms": [{"id": "a", "features": ' + b"[" * 5000 + b"]" * 5000 + b"}]}",
    b'{"name": "x", "schema": {"arm": {"a": {"type": "vector", "size": 100000}}}}',
    b'{"name": "x", "schema": {"arm": {"a": {"type": "number", "scale": 0}}}}',
    b'{"name": "x", "schema": {"arm": {"a": {"type": "nothing"}}}}',
    b'{"name": "x", "schema": {"arm": {"id": {"type": "number"}}}}',
    b'{"name": "x", "schema": {"arm": {}}}',
    b'{"name": "x", "dim": 3, "default_reward": 1}',
    b'{"name": "x", "dim": 1e3, "window": 1e300}',
    b" " * (BODY + 1),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("fuzz") / "fuzz.db") as found:
        assert found.post("/v1/spaces", {"name": "vectors", "dim": 2}).status == 201
        assert found.post("/v1/spaces", NAMED).status == 201
        yield found


def check(answer: Answer) -> None:
    """Refuse whatever is no result and no problem of the caller's."""
    assert answer.status < 500, answer
    if answer.status >= 400:
        assert answer.kind not in ("internal", "")


@pytest.mark.parametrize("path", PATHS)
def test_nasty_bodies_are_refused_with_a_problem(service: Running, path: str) -> None:
    for body in NASTY:
        answer = service.send("POST", path, body)
        check(answer)
        fits = b'"t", "arms": [{"id": "a", "n"' in body and "named" in path
        fits |= b"u0000" in body and path.endswith("vectors/decisions")
        assert answer.status >= 400 or fits, (body[:80], answer)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
arms = st.lists(
    st.fixed_dictionaries(
        {"id": st.text(max_size=3) | values},
        optional={"features": values, "n": values, "c": values, "d": values},
    ),
    max_size=4,
)
bodies = values | st.fixed_dictionaries(
    {},
    optional={
        "task": st.text(max_size=5) | values,
        "arms": arms | values,
        "context": st.fixed_dictionaries({}, optional={"f": values, "h": values}) | values,
        "exclude": values,
        "baseline": values,
        "held": values,
        "id": values,
        "value": values,
        "key": values,
        "name": values,
        "dim": values,
        "roles": values,
    },
)


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(PATHS), body=bodies, cut=st.integers(0, 40))
def test_no_body_makes_the_service_fail(service: Running, path: str, body: Any, cut: int) -> None:
    text = json.dumps(body).encode("utf-8", "surrogatepass")
    check(service.send("POST", path, text))
    check(service.send("POST", path, text[: max(1, len(text) - cut)]))
