"""Dates as people write them."""

from __future__ import annotations

import datetime
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban.reading.convert import days_of_digits
from deciban.reading.dates import DateFormat, infer_dates

UTC = datetime.UTC
WRITTEN = [  # values of a column, and the first of them
    (["23.12.2021", "1.2.2020"], "2021-12-23"),
    (["12/5/2019", "1/31/2019"], "2019-12-05"),
    (["12/5/2019", "31/1/2019"], "2019-05-12"),
    (["02/29/2020 12:00 PM", "02/28/2020 12:00 AM"], "2020-02-29T12:00"),
    (["2021-03-04T05:06:07+02:00"], "2021-03-04T03:06:07"),
    (["2021-03-04 05:06:07.25Z"], "2021-03-04T05:06:07.25"),
    (["2021/3/4 12:30", "2021/3/5"], "2021-03-04T12:30"),
    (["19900330", "20000101"], "1990-03-30"),
    (["23 Dec 2021", "1 März 2020"], "2021-12-23"),
    (["December 23, 2021", "May 5, 2014"], "2021-12-23"),
    (["3rd March 2019", "1st Jan 2020"], "2019-03-03"),
    (["23-Dec-21", "01-Jan-70"], "2021-12-23"),
    (["5 de enero de 2020"], "2020-01-05"),
    (["20. Juli 1944"], "1944-07-20"),
    (["Mon, 5 Jan 2015 10:00:00 +0000"], "2015-01-05T10:00"),
    (["Dec 2021", "Jan 2020"], "2021-12-01"),
    (["2020-01", "2020-12"], "2020-01-01"),
    (["1/2/03 4:05 p.m.", "13/2/03"], "2003-02-01T16:05"),
]


def days(iso):
    return (datetime.datetime.fromisoformat(iso) - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)


@pytest.mark.parametrize(("texts", "first"), WRITTEN)
def test_a_column_of_dates(texts, first):
    form, doubt = infer_dates(texts)
    assert not doubt
    assert form.parse(texts[0]) == pytest.approx(days(first), abs=1e-9)
    assert all(form.parse(text) is not None for text in texts)


@pytest.mark.parametrize(
    "text",
    ["31/02/2020", "1.2.3", "12345678", "Tuesday", "12:30", "Jan 5", "2020", "1.5", "2019-02-30", "12 kg 2020",
     "Mario 5, 2019", "A4 2019", "", "25:00", "2021-01-01 25:00", "13/13/2020", "5/12/2019 13:00 PM", "9" * 60],
)  # fmt: skip
def test_what_is_no_date(text):
    assert infer_dates([text]) is None
    assert infer_dates(["2020-01-01", text]) is None


def test_day_or_month_first():
    texts = ["5/12/2019", "6/1/2020"]
    form, doubt = infer_dates(texts)
    assert form == DateFormat("month")
    assert "5/12/2019" in doubt
    assert infer_dates(texts, day_first=True) == (DateFormat("day"), "")
    assert infer_dates(["5-12-2019"])[0] == DateFormat("day")
    assert infer_dates(["5.12.2019"]) == (DateFormat("day"), "")  # with dots, the day comes first
    assert infer_dates(["31/1/2020", "1/31/2020"]) is None  # of two minds


FORMATS = ["%d.%m.%Y", "%Y-%m-%d", "%d %B %Y", "%B %d, %Y", "%d-%b-%Y", "%Y/%m/%d", "%Y%m%d"]


@given(st.lists(st.dates(datetime.date(1800, 1, 1), datetime.date(2199, 12, 31)), min_size=1), st.sampled_from(FORMATS))
def test_what_is_written_is_read(dates, written):
    texts = [date.strftime(written) for date in dates]
    form, _ = infer_dates(texts)
    assert [form.parse(text) for text in texts] == [float((d - datetime.date(1970, 1, 1)).days) for d in dates]


@given(st.lists(st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)), min_size=1))
def test_times_of_day_are_read(moments):
    texts = [moment.strftime("%d.%m.%Y %H:%M:%S") for moment in moments]
    form, _ = infer_dates(texts)
    expected = [days(moment.replace(microsecond=0).isoformat()) for moment in moments]
    assert [form.parse(text) for text in texts] == pytest.approx(expected, abs=1e-9)


@given(st.text(max_size=60))
def test_any_text_is_a_date_or_is_none(text):
    value = DateFormat().parse(text)
    assert value is None or math.isfinite(value)


@given(st.lists(st.integers(0, 30_000_000), min_size=1))
def test_dates_of_eight_digits(numbers):
    import numpy as np

    def expected(number):
        try:
            day = datetime.datetime.strptime(f"{number:08d}", "%Y%m%d").replace(tzinfo=None)
        except ValueError:
            return math.nan
        return (day - datetime.datetime(1970, 1, 1)).days if 1800 <= day.year <= 2200 else math.nan

    np.testing.assert_array_equal(days_of_digits(np.array(numbers, dtype=float)), [expected(n) for n in numbers])
