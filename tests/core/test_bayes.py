"""Edge cases of Bayes' rule: ties, impossible rows, costs that are just too high, a prior that has converged."""

from __future__ import annotations

import numpy as np
import pytest

from deciban import bayes
from deciban.errors import DecibanError, ZeroEvidenceWarning

with np.errstate(divide="ignore"):
    LOGS = np.vstack([np.log([[0.02, 0.06], [0.0, 0.25], [0.0, 0.0]]), [[1000.0, 1000.0]]])


def test_log_evidence_of_what_is_impossible_is_minus_infinity():
    np.testing.assert_allclose(bayes.log_evidence(LOGS), [np.log(0.08), np.log(0.25), -np.inf, 1000.0 + np.log(2.0)])


def test_where_nothing_is_possible_the_prior_answers_with_a_warning():
    prior = np.log([0.25, 0.75])
    with pytest.warns(ZeroEvidenceWarning, match=r"^1 of 4 rows"):
        posterior = bayes.posterior(LOGS.copy(), prior)
    np.testing.assert_allclose(posterior, [[0.25, 0.75], [0.0, 1.0], [0.25, 0.75], [0.5, 0.5]])
    bayes.posterior(LOGS.copy(), prior, quiet=True)
    with pytest.raises(DecibanError, match="row 1 "):
        bayes.posterior(np.array([[0.0, 0.0], [np.nan, 0.0]]), prior)


def test_costs_decide_and_what_costs_more_than_rejecting_is_rejected():
    p = np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])
    assert bayes.decide(p).tolist() == [0, 0, 1], "the first of equals"
    assert bayes.decide(p, reject=0.25).tolist() == [0, -1, 1], "what costs just as much is answered"
    assert bayes.decide(p, np.array([[0.0, 4.0], [1.0, 0.0]])).tolist() == [0, 0, 0]
    assert bayes.decide(p, np.array([[0.0, 4.0], [1.0, 0.0]]), reject=0.5).tolist() == [0, 0, -1]


def test_a_prior_that_fits_does_not_move():
    posteriors = np.array([[0.8, 0.2], [0.2, 0.8]])
    adapted, steps = bayes.adapt_prior(posteriors, np.array([0.5, 0.5]))
    assert steps == 1
    np.testing.assert_allclose(adapted, [0.5, 0.5])
    given = np.array([0.3, 0.7])
    assert bayes.adapt_prior(np.empty((0, 2)), given) == (given, 0)


def test_a_prior_is_adapted_until_it_converges():
    """A share s of rows has likelihoods 3:1: Σ log(π·3 + (1 − π)·1) + … is largest at π = (3s − (1 − s))/2."""
    posteriors, s = np.array([[0.75, 0.25]] * 6 + [[0.25, 0.75]] * 4), 0.6
    prior = np.array([0.5, 0.5])
    adapted, steps = bayes.adapt_prior(posteriors, prior, tolerance=1e-10)
    np.testing.assert_allclose(adapted[0], (3 * s - (1 - s)) / 2, atol=1e-8)
    coarse, fewer = bayes.adapt_prior(posteriors, prior, tolerance=1e-3)
    assert fewer < steps
    weighted = posteriors / prior * coarse
    moved = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
    assert np.abs(moved - coarse).max() < 1e-3
    with pytest.warns(UserWarning, match="3 steps"):
        assert bayes.adapt_prior(posteriors, prior, max_iter=3)[1] == 3


def test_a_class_without_a_prior_stays_without():
    adapted, _ = bayes.adapt_prior(np.array([[0.7, 0.3, 0.0], [0.2, 0.8, 0.0]]), np.array([0.5, 0.5, 0.0]))
    assert adapted[2] == 0.0
    assert adapted.sum() == pytest.approx(1.0)
