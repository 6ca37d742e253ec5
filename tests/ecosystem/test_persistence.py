"""Models in other libraries' files: joblib, cloudpickle, skops, MLflow. deciban's own file is for keeping."""

from __future__ import annotations

import copy
import io
import pickle

import cloudpickle
import joblib
import numpy as np
import pytest
from every import ESTIMATORS, made, rows_for
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import deciban
from deciban import GaussianNB

LEARNERS = [name for name in ESTIMATORS if name != "CountVectorizer"]


@pytest.fixture(scope="module")
def fitted():
    done = {}

    def get(name):
        if name not in done:
            X, y = rows_for(name, 40)
            done[name] = made(name).fit(X, y), X, y
        return done[name]

    return get


def by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


WAYS = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "joblib": by_joblib,
    "cloudpickle": lambda model: pickle.loads(cloudpickle.dumps(model)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LEARNERS)
def test_a_copy_predicts_as_before(name, way, fitted):
    model, X, _ = fitted(name)
    other = WAYS[way](model)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    if name != "GaussianMixture":
        np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), rtol=1e-12)
    assert b"_learned_rows_" not in pickle.dumps(other), "no rows travel with a model"


def test_skops_stores_what_it_is_told_to_trust(tmp_path, fitted):
    """skops lists the types that it does not know; ours are safe to trust, but `save` needs no list."""
    sio = pytest.importorskip("skops.io", reason="skops is not installed")
    for name in ("GaussianNB", "MultinomialNB", "CategoricalNB", "LinearDiscriminantAnalysis"):
        model, X, _ = fitted(name)
        sio.dump(model, tmp_path / "model.skops")
        types = sio.get_untrusted_types(file=tmp_path / "model.skops")
        assert types
        assert all(one.startswith(("deciban.", "numpy.")) for one in types)
        other = sio.load(tmp_path / "model.skops", trusted=types)
        np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:mlflow")  # about type hints of its own methods
@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")
def test_a_pipeline_of_theirs_with_a_model_of_ours_in_mlflow(tmp_path):
    """MLflow's scikit-learn flavour, and its generic one with our file as the artifact."""
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: make ecosystem")
    X, y = rows_for("GaussianNB")
    pipe = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y)
    mlflow.sklearn.save_model(pipe, tmp_path / "pipe", serialization_format="cloudpickle")
    again = mlflow.sklearn.load_model(str(tmp_path / "pipe"))
    np.testing.assert_allclose(again.predict_proba(X), pipe.predict_proba(X))
    np.testing.assert_array_equal(mlflow.pyfunc.load_model(str(tmp_path / "pipe")).predict(X), pipe.predict(X))

    class Deciban(mlflow.pyfunc.PythonModel):
        def load_context(self, context):
            self.model = deciban.read(context.artifacts["model"])

        def predict(self, context, model_input, params=None):  # noqa: ARG002 - MLflow's signature
            return self.model.predict_proba(model_input)

    model = GaussianNB().fit(X, y)
    model.save(tmp_path / "m.deciban")
    artifacts = {"model": str(tmp_path / "m.deciban")}
    mlflow.pyfunc.save_model(tmp_path / "own", python_model=Deciban(), artifacts=artifacts)
    own = mlflow.pyfunc.load_model(str(tmp_path / "own"))
    np.testing.assert_allclose(own.predict(X), model.predict_proba(X))
