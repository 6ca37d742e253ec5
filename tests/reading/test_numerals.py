"""Numbers as people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deciban.reading.numerals import NumberFormat, common_decimal, look

WRITTEN = [  # values of a column, the numbers they are, and the unit
    (["5,123.45", "12.00"], [5123.45, 12.0], ""),
    (["5.819,58", "3,5"], [5819.58, 3.5], ""),
    (["$27,887", "$3", "12"], [27887.0, 3.0, 12.0], "$"),
    (["€ 1.200", "€ 300"], [1200.0, 300.0], "€"),  # money has two decimals, so these are thousands
    (["€\u00a01.200,5"], [1200.5], "€"),
    (["12.5%", "3 %", "4"], [12.5, 3.0, 4.0], "%"),
    (["(1,234)", "55"], [-1234.0, 55.0], ""),
    (["1 234", "12", "1\u202f234\u202f567"], [1234.0, 12.0, 1234567.0], ""),
    (["1e3", "2.5E-1", "7"], [1000.0, 0.25, 7.0], ""),
    (["3.2M", "400k", "1.1B"], [3.2e6, 4e5, 1.1e9], ""),
    (["$1.2bn", "$300m", "-$5k"], [1.2e9, 3e8, -5000.0], "$"),
    (["3 Mio. €", "4,5 Mio. €", "2 Tsd. €"], [3e6, 4.5e6, 2e3], "€"),
    (["1'234.50", "12", "1’000"], [1234.5, 12.0, 1000.0], ""),
    (["12,34,567", "1,00,000"], [1234567.0, 100000.0], ""),  # as in India
    (["-5", "−3", "3-", "+4"], [-5.0, -3.0, -3.0, 4.0], ""),
    (["-$1,234.56", "($3)", "$-7"], [-1234.56, -3.0, -7.0], "$"),
    (["USD 5", "12 EUR"], [5.0, 12.0], "EUR"),
    (["R$ 5,00", "R$ 1.000,00"], [5.0, 1000.0], "R$"),
    (["CHF 1'200.-", "CHF 5.50"], [1200.0, 5.5], "CHF"),
    (["12 kg", "13.5kg"], [12.0, 13.5], "kg"),
    (["20°C", "-3 °C"], [20.0, -3.0], "°C"),
    (["5 km/h", "7 km/h"], [5.0, 7.0], "km/h"),
    ([".052", "1.", "-.5"], [0.052, 1.0, -0.5], ""),
]


@pytest.mark.parametrize(("texts", "numbers", "unit"), WRITTEN)
def test_a_column_of_numbers(texts, numbers, unit):
    seen = look(texts)
    form, _ = seen.format()
    assert form.unit == unit
    assert [form.parse(text) for text in texts] == pytest.approx(numbers, rel=1e-15)


@pytest.mark.parametrize(
    "texts",
    [
        ["192.168.1.1", "10.0.0.1"],
        ["0171 5550101", "0172 5550199"],
        ["555 123 456", "555 123 457"],
        ["+49 170 1234567"],
        ["(555) 123-4567"],
        ["1,234.5", "1.234,5"],  # of two locales at once
        ["12 kg", "3 cm"],
        ["12 months", "3 years"],
        ["2", "3", "5more"],
        ["1st", "2nd"],
        ["A12", "B7"],
        ["10-20"],
        ["1/2"],
        ["12:30"],
        ["1.2.3"],
        ["12, 13"],
        ["5'11"],
        ["٣"],  # `float` would read it, but nobody says what its separators are
        ["½"],
        ["#12"],
        ["5*"],
        ["(5", "6)"],
        ["-(5)"],
        ["yes", "no"],
        [""],
        [],
        ["9" * 100],
    ],
)
def test_what_is_no_column_of_numbers(texts):
    assert look(texts) is None


@pytest.mark.parametrize(
    ("texts", "known", "number", "doubted"),
    [
        (["1,234", "5,678"], {}, 1234.0, True),
        (["1,234", "5,678"], {"decimal": ","}, 1.234, False),
        (["1,234", "5,678"], {"thousands": ","}, 1234.0, False),
        (["$1,234", "$5,678"], {}, 1234.0, False),
        (["1.234", "5.678"], {}, 1.234, False),
        (["1.234", "5.678"], {"decimal": ","}, 1234.0, False),
        (["1.5", "2.25"], {"decimal": ","}, 1.5, False),  # can be nothing else
        (["1,234", "5,6"], {}, 1.234, False),
        (["1,234", "5,678", "1,234,567"], {}, 1234.0, False),
    ],
)
def test_what_one_value_leaves_open_others_and_people_decide(texts, known, number, doubted):
    form, doubt = look(texts).format(**known)
    assert form.parse(texts[0]) == number
    assert bool(doubt) == doubted


def test_the_columns_of_a_table_decide_together():
    assert common_decimal([look(["1.234,5"]), look(["1.200"]), look(["12"]), None]) == ","
    assert common_decimal([look(["1.200"]), None]) is None
    assert common_decimal([look(["0.5"]), look(["1,5"]), look(["2.5"])]) == "."


def test_a_few_words_among_many_numbers_are_missing():
    numbers = [f"{i},{i % 10}" for i in range(30)]
    form, _ = look([*numbers, "closed", "unknown"]).format()
    assert math.isnan(form.parse("closed"))
    assert form.parse("open") is None
    assert form.parse("3,5") == 3.5
    assert look(["1", "2", "closed"]) is None  # of few numbers, such as grades, words may be as many
    assert look([*numbers, *"abcdef"]) is None
    assert look([*numbers, "12 or 13"]) is None


LOCALES = [(".", ","), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'")]


def spelled(cents, decimal, thousands, unit):
    """A number of cents in a locale, by Python's own formatting."""
    text = f"{abs(cents) / 100:,.2f}".replace(",", "_").replace(".", decimal).replace("_", thousands)
    return f"{'-' * (cents < 0)}{text}{unit}"


@given(
    st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=20),
    st.sampled_from(LOCALES),
    st.sampled_from(["", " €", "%", " kg"]),
)
def test_what_is_written_in_a_locale_is_read_in_it(cents, locale, unit):
    assume(max(map(abs, cents)) >= 100_000)  # a separator of thousands is somewhere
    texts = [spelled(value, *locale, unit) for value in cents]
    form, doubt = look(texts).format()
    assert not doubt
    assert [form.parse(text) for text in texts] == [value / 100 for value in cents]


@given(st.text(max_size=80))
def test_any_text_is_a_number_or_is_none(text):
    value = NumberFormat(scaled=True, unit="€").parse(text)
    assert value is None or math.isfinite(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_writes_is_read(number):
    assert NumberFormat().parse(repr(number)) == number
