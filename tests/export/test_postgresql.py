"""The statements for PostgreSQL, run in a server of the test's own, where one is installed. As in test_sql."""

from __future__ import annotations

import csv
import io
import os
import shutil
import signal
import subprocess
import tempfile
import time

import numpy as np
import pandas as pd
import pytest

from deciban import CategoricalNB, Classifier

from .cases import MAKERS, case, quoted
from .test_sql import HOSTILE, answers, check

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("initdb") is None or shutil.which("psql") is None, reason="no PostgreSQL here"),
    pytest.mark.filterwarnings("ignore::deciban.errors.ZeroEvidenceWarning"),
    pytest.mark.filterwarnings("ignore::deciban.errors.SingularWarning"),
]
TYPES = {"f": "double precision", "i": "integer", "b": "boolean", "M": "timestamp"}


class Server:
    """A server on a socket in a folder of its own."""

    def __init__(self, folder: str) -> None:
        # It refuses to run as root.
        self.folder, self.who = folder, {"user": "nobody"} if os.geteuid() == 0 else {}
        if self.who:
            shutil.chown(folder, "nobody")
        data, options = os.path.join(folder, "data"), {"cwd": folder, "stdout": subprocess.DEVNULL, **self.who}
        subprocess.run(["initdb", "-D", data, "-U", "postgres", "-E", "UTF8", "--no-locale"], check=True, **options)
        listen = ["-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        self.process = subprocess.Popen(["postgres", "-D", data, *listen], stderr=subprocess.DEVNULL, **options)
        for _ in range(200):
            if subprocess.run(["pg_isready", "-q", "-h", folder], check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise RuntimeError("the server did not start")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)

    def run(self, statement: str, frame: pd.DataFrame, name: str = "data") -> pd.DataFrame:
        types = [TYPES.get("b" if str(kind) == "boolean" else kind.kind, "text") for kind in frame.dtypes]
        columns = ", ".join(f"{quoted(c)} {kind}" for c, kind in zip(frame.columns, types, strict=True))
        rows = frame.to_csv(index=False, header=False, na_rep="\\N", quoting=csv.QUOTE_NONNUMERIC).replace(
            '"\\N"', "\\N"
        )
        script = (
            f"BEGIN; CREATE TEMP TABLE {quoted(name)} ({columns});\n"
            f"COPY {quoted(name)} FROM STDIN WITH (FORMAT csv, NULL '\\N');\n{rows}\\.\n"
            f"COPY ({statement}) TO STDOUT WITH (FORMAT csv, HEADER, NULL '\\N');\n"
        )
        options = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U", "postgres", "-d", "postgres"]
        result = subprocess.run(["psql", *options], input=script.encode(), capture_output=True, check=False)
        assert result.returncode == 0, result.stderr.decode()[-2000:]
        out = pd.read_csv(io.StringIO(result.stdout.decode()), na_values=["\\N"], keep_default_na=False)
        return out.replace({"t": True, "f": False}) if set(out["prediction"]) <= {"t", "f"} else out


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        running = Server(folder)
        yield running
        running.stop()


@pytest.mark.parametrize("name", MAKERS)
def test_a_server_gives_the_models_probabilities(server, name):
    one = case(name)
    check(one.model, one.X, one.frame, "postgresql", run=server.run)


def test_a_table_of_its_own(server, table):
    data = table("credit_approval")
    frame = pd.concat(
        [pd.DataFrame(data.numbers, columns=data.numeric), pd.DataFrame(data.categories, columns=data.nominal)], axis=1
    )
    model = Classifier(n_jobs=1).fit(frame[:300], data.y[:300])
    check(model, frame[300:400], frame[300:400], "postgresql", run=server.run)


def test_hostile_names(server):
    names = [name for name in HOSTILE if name != "prediction"]
    values = [*HOSTILE, "E'x'", "%s", "\t"]
    X = np.array([[v, w] for v in values for w in values[::5]], dtype=object)
    model = CategoricalNB().fit(X, np.array(names)[np.arange(len(X)) % len(names)])
    frame = pd.DataFrame(X, columns=['x"; --', "\\'y"])
    proba, labels = answers(model, frame, "postgresql", server.run, columns=list(frame.columns))
    assert np.abs(proba - model.predict_proba(X)).max() <= 1e-10
    assert labels.tolist() == model.predict(X).tolist()
