"""Scans of JSON against what Python's parser finds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban._kernel.json import count_keys, nested_at

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
KEY = st.text(alphabet='ab"\\{}[]: \né', max_size=3)
NESTED = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEY, inner, max_size=2), max_leaves=4
)


def lines(objects, ensure_ascii=True, separators=None):
    return "\n".join(json.dumps(one, ensure_ascii=ensure_ascii, separators=separators) for one in objects).encode()


@given(st.lists(st.dictionaries(KEY, NESTED, max_size=3), max_size=4), st.booleans())
def test_what_is_nested(objects, ensure_ascii):
    data = lines(objects, ensure_ascii)
    at = nested_at(data)
    assert (at >= 0) == any(isinstance(value, list | dict) for one in objects for value in one.values())
    if at >= 0:
        before, _, _ = data[:at].rpartition(b"\n")  # no newline is inside a string: they are escaped
        assert nested_at(before) == -1
        assert data[at : at + 1] in b"[{"


@given(
    st.lists(st.dictionaries(KEY, PLAIN, max_size=5), max_size=6), st.sampled_from([None, (",", ":"), (" , ", " : ")])
)
def test_keys(objects, separators):
    data = lines(objects, separators=separators)
    assert count_keys(data, 1000) == (len({key for one in objects for key in one}), sum(map(len, objects)))


def test_keys_are_counted_up_to_a_limit():
    data = lines({f"key {i}": i} for i in range(50))
    assert count_keys(data, 20) == (20, 20)
    assert count_keys(data, 1000) == (50, 50)


def test_keys_of_a_long_object_and_the_same_in_another_order():
    names = [f"key {i}" for i in range(500)]
    data = lines([dict.fromkeys(names, 1), dict.fromkeys(reversed(names), 2), {names[3]: 1}])
    assert count_keys(data, 1000) == (500, 1001)


@pytest.mark.parametrize("data", [b"", b'"', b'"\\', b'{"a', b'{"a"', b'{"a":', b"}}]]", b'{"a\\":1', b"\x00\xff"])
def test_what_is_cut_off_is_not_read_beyond_its_end(data):
    assert nested_at(data) == -1
    assert count_keys(data, 10)[0] <= 1


def test_depth_is_found_across_lines():
    assert nested_at(b'{"a":\n[\n[\n') == 6
    assert nested_at(b'{"a": "[{"}\n{"b": 1}\n[1]') == -1
