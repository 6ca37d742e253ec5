"""Forgetting is never having seen; leave-one-out is refitting; decibans add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from worlds import GENERATIVE, PIVOTED, law

from deciban.bayes import DECIBANS
from deciban.corollaries.explain import explain
from deciban.corollaries.forget import forget, prune
from deciban.corollaries.leave_one_out import leave_one_out
from deciban.errors import ForgetError
from deciban.families.gaussian import doubtful, without_row
from deciban.joint import Model, log_class_prior_without


@law(which=st.integers(0, 100))
def test_forgetting_is_never_having_seen(world, which):
    gone = np.random.default_rng(which).random(len(world.y)) < 0.5
    forgotten = forget(world.model(), world.collect(np.flatnonzero(gone)))
    assert forgotten.stats.same_as(prune(world.collect(np.flatnonzero(~gone)), None), tolerance=1e-7)


@law(rows=(2, 30))
def test_forgetting_everything_leaves_nothing(world):
    left = forget(world.model(), world.collect()).stats
    assert len(left.classes) == 0
    assert left.weight.sum() == 0


@law(rows=(2, 30))
def test_what_was_never_learned_cannot_be_forgotten(world):
    assume(world.collect().weight.any())
    with pytest.raises(ForgetError, match="learned"):
        forget(world.model(), world.collect().scale(1.5))


def learned_rows(world, rows):
    """The number of complete rows with a weight, by class."""
    there = ~np.isnan(world.X[rows]).any(axis=1) & (True if world.weight is None else world.weight[rows] > 0)
    return np.bincount(world.y[rows][there], minlength=len(world.schema.classes))


def with_far_rows(world, which, power, few):
    """Some rows of the world moved far out in one column each, and which."""
    rng = np.random.default_rng(which)
    far = rng.choice(len(world.y), min(few, len(world.y)), replace=False)
    world.X[far, rng.integers(0, world.X.shape[1], len(far))] += 10.0 ** (power + rng.normal(size=len(far)))
    return far


@law(PIVOTED, rows=(4, 30), which=st.integers(0, 1000), power=st.floats(0, 12), in_turn=st.booleans())
def test_what_a_far_row_leaves_is_right_or_refused(world, which, power, in_turn):
    """A far value costs the digits of the others: without it their variance is right, or there is an error."""
    far = with_far_rows(world, which, power, 3)
    rest = np.setdiff1d(np.arange(len(world.y)), far)
    left, refit = world.model(), Model(world.joint, prune(world.collect(rest), None))
    if world.weight is not None:  # several rows that weigh less than two together may be taken for one
        several = np.bincount(world.y[rest][world.weight[rest] > 0])[refit.classes] > 1
        assume((refit.stats.sums[0]["one"].min(axis=1)[several] >= 2).all())
    refused = ""
    try:
        for rows in [[i] for i in far] if in_turn else [far]:
            left = forget(left, prune(world.collect(rows), None))
    except ForgetError as error:
        refused = str(error)
    if refused or len(refit.classes) == 0:
        assert "rounding" in refused or len(left.classes) == 0
        return
    assert left.classes.tolist() == refit.classes.tolist()
    wide = np.ma.masked_invalid(world.X[rest]).var(axis=0).filled(0.0) if len(rest) else np.zeros(world.X.shape[1])
    for name in ("mean", "variance"):
        ours, theirs = (m.joint.blocks[0].family.table(m.params[0], m.columns())[name] for m in (left, refit))
        size = np.sqrt(wide) + np.abs(theirs) if name == "mean" else wide * 2.0**-40 + theirs
        spaced = 2.0**-50 * np.ma.masked_invalid(np.abs(world.X)).max() if name == "mean" else 1e-300
        np.testing.assert_array_less(np.abs(ours - theirs), 1e-3 * size + spaced)


# The prior has no fourth moments, so that with one Ledoit and Wolf's estimate depends on where the pivot is.
@law(
    [case for case in PIVOTED if case.settings.get("sphere") != "auto"],
    rows=(4, 30),
    which=st.integers(0, 1000),
    power=st.floats(3, 12),
)
def test_a_far_row_is_left_out_as_by_refitting(world, which, power):
    far = [i for i in with_far_rows(world, which, power, 2) if (np.delete(world.y, i) == world.y[i]).sum() > 2]
    whole = world.model()
    learned = np.flatnonzero(~np.isnan(world.X).any(axis=1)) if world.family.whole_rows else np.arange(len(world.y))
    weight = None if world.weight is None else world.weight[learned]
    log_proba = leave_one_out(whole, [world.X[learned]], world.y[learned], weight).log_proba
    for i in np.intersect1d(far, learned):
        others = np.delete(np.arange(len(world.y)), i)
        refit, c = world.model(others), world.y[i]
        if not settled(world, others):
            continue
        if learned_rows(world, others)[c] > 1 and refit.stats.weight[c] < 2:
            continue  # several rows that weigh less than two together may be taken for one
        if not refit.stats.weight[c] > 0:
            continue  # nothing is left of its class
        log_joint = refit.log_joint([world.X[i : i + 1]])[0]
        literal = log_joint - np.logaddexp.reduce(log_joint)
        deepest = np.abs(log_joint[np.isfinite(log_joint)]).max(initial=1.0)
        ours = log_proba[np.searchsorted(learned, i)]
        # Logarithms, which tell a variance that is wrong from one that is right however far out the row is.
        np.testing.assert_allclose(ours, literal, rtol=0, atol=1e-5 * deepest)


def settled(world, rows):
    """Whether these rows determine the parameters, and not rounding."""
    family, each = world.family, learned_rows(world, rows)
    if getattr(family, "sphere", 0.0) == "auto":  # two rows are as far from their mean: their Ledoit and Wolf is 0/0
        return (each != 2).all()
    if getattr(family, "covariance", "") == "EEV":  # with fewer rows than columns, axes may point anywhere
        return (each > world.X.shape[1]).all()
    return True


# Classes without any row but the one that is left out, or without any, have only the prior.
ALONE = {"seed": 0, "n": 2, "d": 1, "k": 3, "missing": False, "weighted": False, "alpha": 1e-6}


@law(rows=(2, 14), columns=4, classes=3, alphas=(0.0, 1e-6, 0.3, 1.0), always=(ALONE,))
def test_leave_one_out_is_refitting(world):
    n, alpha = len(world.y), world.alpha
    columns = world.schema.blocks[0]
    sums = world.collect().sums[0]
    quick = world.family.leave_one_out(sums, alpha, columns, world.X, world.y, world.weight)
    table, which = log_class_prior_without("empirical", world.collect().weight, world.y, world.weight)
    prior = table[which]
    for i in range(n):
        others = np.flatnonzero(np.arange(n) != i)
        refit = world.model(others)
        nothing = "one" in refit.stats.sums[0] and not refit.stats.sums[0]["one"].sum(axis=0).all()
        if nothing or not refit.stats.weight.any():
            assert not np.isnan(quick[i]).any()
            continue  # a column of which nothing is left: there is no law to compare with
        if not settled(world, others):
            continue
        literal = world.family.log_prob(refit.params[0], columns, world.X[i : i + 1])[0]
        if np.isnan(quick[i]).any():  # the sums without it are in doubt, and the corollary learns the others again
            w = 1.0 if world.weight is None else world.weight[i]
            assert doubtful(without_row(sums, columns, world.X[i : i + 1], int(world.y[i]), w)).any()
            continue
        # Rounding of moments about a pivot, and of a log-density that is thousands of nats deep, is relative.
        scale = 1.0 + np.abs(np.where(np.isfinite(literal), literal, 0.0))
        tolerance = 2e-6 if world.family.pivoted else 1e-9
        deep = np.zeros(len(literal), dtype=bool)
        if world.family.whole_rows:
            # A covariance that is singular up to rounding makes rows impossible, with no digits to compare.
            deep = literal < -1e5
            assert (quick[i][deep] < -1e4).all()
        np.testing.assert_allclose((quick[i] / scale)[~deep], (literal / scale)[~deep], rtol=0, atol=tolerance)
        learned = not (
            world.family.whole_rows and np.isnan(world.X[i]).any()
        )  # a row with a missing value is left to EM
        if world.family.generative and learned:
            np.testing.assert_allclose(np.exp(prior[i]), np.exp(refit.log_prior), atol=1e-12)


@law(GENERATIVE, rows=(2, 30))
def test_decibans_add_up_to_the_log_odds(world):
    model = world.model()
    assume(len(model.classes) > 1 and (model.stats.weight > 0).all())
    why = explain(model, [world.X[:1]])
    log_joint = model.log_joint([world.X[:1]])[0]
    odds = log_joint[why.target] - log_joint[why.against]
    assert why.total == pytest.approx(odds * DECIBANS, rel=1e-9, abs=1e-7)
    assert why.target == np.argmax(log_joint)
