"""What is said of values that a model does not allow."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, Field, JsonValue, model_validator
from pydantic.dataclasses import dataclass

from qv_env.schema import DATACLASS, OneOf, Strict, Whole, checked
from qv_env.strict_json import FormatError


def _even(value: int) -> int:
    if value % 2:
        raise ValueError(f"even numbers only, not {value}")
    return value


class Inner(Strict):
    count: Annotated[int, Whole(1, 70_000)] = 1
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    rate: Annotated[float, Field(ge=0, le=1)] | None = None
    kind: Annotated[str, OneOf(("a", "b"))] = "a"
    flag: bool = False

    @model_validator(mode="after")
    def _check(self) -> Inner:
        if self.count == 13:
            raise ValueError("inner.count is not 13")
        return self


@dataclass(frozen=True, config=DATACLASS)
class Effort:
    width: Annotated[int, Field(ge=1, le=9, strict=True)] = 1

    def __post_init__(self) -> None:
        if self.width == 7:
            raise ValueError("width is not 7")


class Outer(Strict):
    format: Literal["x"] = "x"
    size: int = 0
    even: Annotated[int, AfterValidator(_even)] = 0
    sizes: Annotated[list[Annotated[int, Whole(1, 9)]], Field(min_length=1, max_length=3)] = [1]  # noqa: RUF012
    deals: Annotated[str, Field(max_length=5)] | list[int | str] | None = None
    times: dict[str, Annotated[float, Field(ge=0)]] = {}  # noqa: RUF012
    inner: Inner = Inner()
    inners: list[Inner] = []  # noqa: RUF012
    settings: dict[str, JsonValue] = {}  # noqa: RUF012
    perhaps: Inner | None = None
    effort: Effort | None = None


def test_what_fits_comes_back():
    assert checked(Outer, {}) == Outer()
    made = checked(
        Outer,
        {"inner": {"count": 2e3, "share": 1, "rate": None}, "deals": [1, "x"], "sizes": [1, 2.0]},
    )
    assert (made.inner.count, made.inner.share, made.sizes) == (2000, 1.0, [1, 2])
    assert isinstance(made.inner.count, int)
    assert isinstance(made.inner.share, float)
    assert list(made.model_dump()) == list(Outer.model_fields)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "this is a mapping of keys, not 5"),
        (None, "this is a mapping of keys, not null"),
        ([], "this is a mapping of keys, not []"),
        ({"x": 1}, "unknown key x; there are format, size, even, sizes, deals, times, inner,"),
        ({"inner": {"x\n": 1}}, r"unknown key inner.x\n; there are count, share, rate, kind, flag"),
        ({"format": "y"}, "format is x, not 'y'"),
        ({"size": "1"}, "size is an integer, not '1'"),
        ({"size": 1.0}, "size is an integer, not 1.0"),
        ({"size": True}, "size is an integer, not true"),
        ({"even": 3}, "even: even numbers only, not 3"),
        ({"sizes": 3}, "sizes is a list of at least 1 entry and of at most 3 entries, not 3"),
        ({"sizes": []}, "sizes is a list of at least 1 entry and of at most 3 entries, not []"),
        ({"sizes": [1, 10]}, "sizes[1] is an integer in 1..9, not 10"),
        ({"sizes": [1, 1.5]}, "sizes[1] is an integer in 1..9, not 1.5"),
        ({"deals": 5}, "deals is text of at most 5 characters or a list or null, not 5"),
        ({"deals": "123456"}, "deals is text of at most 5 characters or a list or null,"
                              " not '123456'"),
        ({"deals": [1, None]}, "deals[1] is an integer or text, not null"),
        ({"times": {"a": -1}}, "times.a is a number at least 0, not -1"),
        ({"times": {"a": float("nan")}}, "times.a is a number at least 0, not nan"),
        ({"inner": None}, "inner is a mapping of keys, not null"),
        ({"inner": {"count": 0}}, "inner.count is an integer in 1..70,000, not 0"),
        ({"inner": {"count": 10**5000}}, "inner.count is an integer in 1..70,000, not an integer"
                                         " of 16610 bits"),
        ({"inner": {"count": 1e300}}, "inner.count is an integer in 1..70,000,"),
        ({"inner": {"count": float("inf")}}, "inner.count is an integer in 1..70,000, not inf"),
        ({"inner": {"share": 0}}, "inner.share is a number above 0 and at most 1, not 0"),
        ({"inner": {"share": float("inf")}}, "inner.share is a number above 0 and at most 1, not"),
        ({"inner": {"share": 10**400}}, "inner.share is a number above 0 and at most 1, not 1000"),
        ({"inner": {"rate": 2}}, "inner.rate is a number in 0..1 or null, not 2"),
        ({"inner": {"kind": "c"}}, "inner.kind is one of a, b, not 'c'"),
        ({"inner": {"kind": ["a"]}}, "inner.kind is one of a, b, not ['a']"),
        ({"inner": {"flag": 1}}, "inner.flag is true or false, not 1"),
        ({"inner": {"count": 13}}, "inner.count is not 13"),
        ({"inners": [{}, {"flag": None}]}, "inners[1].flag is true or false, not null"),
        ({"settings": {"a": [1, float("nan")]}}, "settings.a is a finite number, not nan"),
        ({"settings": {"a": object}}, "settings.a is a value of JSON, not <class 'object'>"),
        ({1: 1}, "a key is text, not 1"),
        ({"perhaps": {"x": 1}}, "unknown key perhaps.x; there are count, share, rate, kind, flag"),
        ({"perhaps": {"count": 13}}, "inner.count is not 13"),
        ({"perhaps": {"kind": 1}}, "perhaps.kind is one of a, b, not 1"),
        ({"perhaps": 5}, "perhaps is a mapping of keys or null, not 5"),
        ({"effort": {"x": 1}}, "unknown key effort.x; there are width"),
        ({"effort": {"width": True}}, "effort.width is an integer in 1..9, not true"),
        ({"effort": {"width": 7}}, "width is not 7"),
        ({"effort": 7}, "effort is a mapping of keys or null, not 7"),
    ],
    ids=lambda value: None if isinstance(value, str) else "value",
)  # fmt: skip
def test_the_message_names_the_key_and_what_it_may_be(value, message):
    with pytest.raises(FormatError) as caught:
        checked(Outer, value)
    assert str(caught.value).startswith(message)
    with pytest.raises(FormatError) as caught:
        checked(Outer, value, "a.json")
    assert str(caught.value).startswith(f"a.json: {message}")


class Needed(Strict):
    inner: Inner
    name: str


def test_missing_keys_are_named():
    with pytest.raises(FormatError, match=r"^f: the key inner is missing$"):
        checked(Needed, {}, "f")
    with pytest.raises(FormatError, match=r"^the key name is missing$"):
        checked(Needed, {"inner": {}})


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=100),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*Outer.model_fields, *Inner.model_fields, "other"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(VALUES)
def test_any_value_fits_or_is_refused_on_one_short_line(value):
    try:
        checked(Outer, value)
    except FormatError as error:
        message = str(error)
    else:
        message = "fits"
    assert message.isprintable()
    assert len(message) < 300
