"""Filters of mail side by side: bogofilter, the Bayes filters of SpamAssassin and rspamd, and deciban.

Each learns the same mails and is asked about the same others, one after the other, by the program that a mail server
would start (rspamd, which has none, over HTTP). All of them get the raw mail with its whole header; headers of this set
leak (mailing lists and weeks differ between ham and spam): read the rows against each other, and not as what to expect
of new mail. rspamd's Bayes reads the text and four fields of the header: compare it with deciban's row for
CONTENT_HEADERS, which reads subject, sender and text. SpamAssassin and rspamd run without their rules and without the
network: it is their learning that is compared, and not what they are as a whole. SpamAssassin expires no tokens here.

A filter that is not installed is left out with a reason (`make mail` installs all of them on Debian). DECIBAN_DATA is
the folder of the data; by default `../shared/data` beside the project.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

import deciban
from deciban.client import Client
from deciban.text.mail import CONTENT_HEADERS

OUT = Path(__file__).parent / "results"
DATA = Path(os.environ.get("DECIBAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
FILTER = Path(sys.executable).with_name("deciban-filter")
MIN_PROBABILITY = 1e-6  # for clipping, so that one certain mistake costs 13.8 nats and not infinity
HAM_UP_TO, SPAM_FROM = 0.2, 0.99  # for those that have no verdict of their own: deciban's, by its default costs
START_SECONDS = 120


class Peer:
    """A filter: learns, is asked, and ends."""

    program = ""
    package = ""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, []

    @classmethod
    def why_missing(cls) -> str:
        where = shutil.which(cls.program)
        return "" if where else f"there is no program {cls.program} here (Debian: apt-get install {cls.package})"

    def files(self, mails: list[bytes], name: str) -> list[str]:
        place = self.folder / name
        place.mkdir()
        names = [str(place / f"{number:06}") for number in range(len(mails))]
        for path, raw in zip(names, mails, strict=True):
            Path(path).write_bytes(raw)
        return names

    def start(self, *command: str | Path, **how) -> subprocess.Popen:
        process = subprocess.Popen([str(part) for part in command], start_new_session=True, **how)
        self.processes.append(process)
        return process

    def pids(self) -> list[int]:
        """The processes that stay, with their children."""
        parents = {int(stat.parent.name): parent_of(stat) for stat in Path("/proc").glob("[0-9]*/stat")}
        found = {process.pid for process in self.processes}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(found)

    def stop(self) -> None:
        for process in reversed(self.processes):
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def verdict(self, p: float) -> str:
        return "spam" if p >= SPAM_FROM else "ham" if p <= HAM_UP_TO else "unsure"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def parent_of(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


class Bogofilter(Peer):
    program = package = "bogofilter"

    def learn(self, mails, labels):
        names = self.files(mails, "train")
        for label, option in (("ham", "-n"), ("spam", "-s")):
            own = [name for name, given in zip(names, labels, strict=True) if given == label]
            self._run(option, "-b", input="\n".join(own).encode())

    def _run(self, *options, **how):
        done = subprocess.run(
            ["bogofilter", "-C", "-d", self.folder, *options], capture_output=True, check=False, **how
        )
        if done.returncode > 2:
            raise RuntimeError(done.stderr)
        return done.stdout

    def ask(self, raw):
        return float(self._run("-T", input=raw).split()[1])

    def verdict(self, p):
        return "spam" if p >= 0.99 else "ham" if p <= 0.45 else "unsure"  # its own defaults


SPAMASSASSIN = """
loadplugin Mail::SpamAssassin::Plugin::Check
loadplugin Mail::SpamAssassin::Plugin::Bayes
use_bayes 1
bayes_auto_learn 0
bayes_auto_expire 0
bayes_path {folder}/bayes/bayes
body BAYES_99 eval:check_bayes('0.00', '1.00')
add_header all Probability _BAYES_
report_safe 0
required_score 1000
"""


class SpamAssassin(Peer):
    program, package = "spamd", "spamassassin spamd spamc sa-compile"

    def learn(self, mails, labels):
        (self.folder / "config").mkdir()
        (self.folder / "bayes").mkdir()
        (self.folder / "config/local.cf").write_text(SPAMASSASSIN.format(folder=self.folder))
        names = self.files(mails, "train")
        config = [f"--configpath={self.folder / 'config'}", f"--siteconfigpath={self.folder / 'config'}"]
        for label in ("ham", "spam"):
            own = [name for name, given in zip(names, labels, strict=True) if given == label]
            listed = self.folder / label
            listed.write_text("\n".join(own) + "\n")
            subprocess.run(
                ["sa-learn", *config, f"--{label}", "--no-sync", "-f", listed], check=True, capture_output=True
            )
        subprocess.run(["sa-learn", *config, "--sync"], check=True, capture_output=True)
        self.port = free_port()
        options = ["-L", "-x", "-p", str(self.port), "-i", "127.0.0.1", "-m", "1", "-s", "null"]
        if os.geteuid() == 0:  # it does not run as root
            for path in (self.folder / "bayes", *(self.folder / "bayes").iterdir()):
                shutil.chown(path, "nobody")
            options += ["-u", "nobody"]
        self.start("spamd", *config, *options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: self.ask(b"Subject: x\n\ny\n") is not None)

    def ask(self, raw):
        done = subprocess.run(
            ["spamc", "-d", "127.0.0.1", "-p", str(self.port), "-s", "100000000", "--headers", "-x"],
            input=raw,
            capture_output=True,
            check=False,
        )
        match = re.search(rb"^X-Spam-Probability: ([\d.]+)", done.stdout, re.MULTILINE)
        return None if match is None else float(match[1])


RSPAMD = """
options {{
    pidfile = "{folder}/pid";
    filters = "";
    dns {{ nameserver = ["127.0.0.1:1"]; timeout = 0.1s; retransmits = 0; }}
    tempdir = "{folder}";
    url_tld = "/usr/share/rspamd/effective_tld_names.dat";
    classify_headers = ["User-Agent", "X-Mailer", "Content-Type", "X-MimeOLE"];
    control_socket = "{folder}/control mode=0600";
    cache_file = "{folder}/symbols.cache";
    hs_cache_dir = "{folder}/";
    words_decay = 600;
}}
logging {{ type = "file"; filename = "{folder}/log"; level = "error"; }}
worker "normal" {{ bind_socket = "127.0.0.1:{port}"; count = 1; }}
worker "controller" {{ bind_socket = "127.0.0.1:{control}"; count = 1; secure_ip = "127.0.0.1"; }}
redis {{ servers = "{folder}/redis.sock"; }}
metric {{ name = "default"; actions {{ reject = 1000; }} }}
classifier "bayes" {{
  tokenizer {{ name = "osb"; }}
  new_schema = true;
  min_tokens = 11;
  backend = "redis";
  min_learns = 200;
  statfile {{ symbol = "BAYES_HAM"; spam = false; }}
  statfile {{ symbol = "BAYES_SPAM"; spam = true; }}
}}
"""


class Rspamd(Peer):
    program, package = "rspamd", "rspamd redis-server"

    @classmethod
    def why_missing(cls):
        return super().why_missing() or ("" if shutil.which("redis-server") else "it keeps its statistics in Redis")

    def learn(self, mails, labels):
        self.port, control = free_port(), free_port()
        config = self.folder / "rspamd.conf"
        config.write_text(RSPAMD.format(folder=self.folder, port=self.port, control=control))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        only_socket = ["--port", "0", "--unixsocket", self.folder / "redis.sock"]
        self.start("redis-server", *only_socket, "--save", "", "--dir", self.folder, **quiet)
        self.start("rspamd", "-f", "-i", "-c", config, **quiet)
        wait_for(lambda: posted(self.port, "/ping", b"")[0] == 200 and posted(control, "/ping", b"")[0] == 200)
        self.control = http.client.HTTPConnection("127.0.0.1", control, timeout=30)
        for raw, label in zip(mails, labels, strict=True):
            self.control.request("POST", f"/learn{label}", raw)
            answer = self.control.getresponse()
            answer.read()  # a mail whose Message-ID it has seen is refused, and so not learned twice
            if answer.will_close:
                self.control.close()
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def ask(self, raw):
        self.connection.request("POST", "/checkv2", raw)
        symbols = json.loads(self.connection.getresponse().read())["symbols"]
        for symbol, sign in (("BAYES_SPAM", 1.0), ("BAYES_HAM", -1.0)):
            if symbol in symbols:
                percent = float(symbols[symbol]["options"][0].rstrip("%"))
                return 0.5 + sign * percent / 200.0  # it writes how far the probability is from a half
        return 0.5


def posted(port: int, path: str, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("POST" if body else "GET", path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


class Deciban(Peer):
    """`deciban serve` by its socket, asked by `deciban-filter`."""

    program = str(FILTER)
    package = "deciban"
    headers = None  # all of them

    def learn(self, mails, labels):
        self.model = self.folder / "mail.deciban"
        deciban.SpamFilter(headers=self.headers, n_jobs=1).fit(mails, labels).save(self.model)
        self.begin()

    def begin(self):
        where = ["--socket", self.folder / "socket", "--store", self.folder / "store.sqlite"]
        command = [sys.executable, "-m", "deciban", "serve", self.model, *where, "--no-auth", "--log-level", "error"]
        self.start(*command, stderr=subprocess.DEVNULL)
        self.options = ["--socket", str(self.folder / "socket")]
        wait_for(Client(f"unix:{self.folder / 'socket'}").ready)

    def ask(self, raw):
        done = subprocess.run([FILTER, *self.options], input=raw, capture_output=True, check=True)
        found = re.search(rb"X-Deciban: (\w+); probability=([\d.]+); decibans=([-\d.]+)", done.stdout)
        self.answer = found[1].decode()
        return 1.0 / (1.0 + 10.0 ** (-float(found[3]) / 10.0))

    def verdict(self, p):
        del p
        return self.answer


class DecibanAlone(Deciban):
    """`deciban-filter` with a model file, and no server."""

    def begin(self):
        self.options = ["--model", str(self.model)]
        self.ask(b"Subject: x\n\n")  # makes the index


class DecibanContent(Deciban):
    """Subject, sender and body: the parts of the header that leak are not read. rspamd reads as little."""

    headers = CONTENT_HEADERS


PEERS = {
    "bogofilter": Bogofilter,
    "SpamAssassin's Bayes": SpamAssassin,
    "rspamd's Bayes": Rspamd,
    "deciban, by its socket": Deciban,
    "deciban, alone": DecibanAlone,
    "deciban, CONTENT_HEADERS": DecibanContent,
}


def wait_for(true) -> None:
    end = time.monotonic() + START_SECONDS
    while not true():
        if time.monotonic() > end:
            raise RuntimeError("it does not start")
        time.sleep(0.1)


def memory(pids: list[int]) -> float:
    """The proportional set size of processes, in MB: memory that they share is counted once."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])
    return total / 1024


def processor_seconds(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))  # its own, and of its children that have ended
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return total / os.sysconf("SC_CLK_TCK") + own.ru_utime + own.ru_stime


def load() -> tuple[list[bytes], np.ndarray]:
    path = DATA / "spamassassin" / "spamassassin.jsonl.gz"
    if not path.exists():
        raise SystemExit(f"there is no {path}: DECIBAN_DATA says where the data sets are")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row["text"].encode("latin-1") for row in rows], np.array([row["label"] for row in rows])


def missed_at(p: np.ndarray, spam: np.ndarray, lost: float) -> float:
    """The share of spam that is missed if the threshold is set so high that no more than this share of ham is lost."""
    ham = np.sort(p[~spam])[::-1]
    threshold = ham[int(lost * len(ham))]
    return float((p[spam] <= threshold).mean())


def measured(kind: type[Peer], mails, y, folds) -> dict[str, float]:
    """All folds taken together; speed and memory of the first one."""
    p, verdicts, out = np.full(len(y), np.nan), np.empty(len(y), dtype=object), {}
    for number, (learned, unseen) in enumerate(folds):
        folder = Path(tempfile.mkdtemp(prefix="filters-"))
        folder.chmod(0o755)
        peer = kind(folder)
        try:
            start = time.perf_counter()
            peer.learn([mails[i] for i in learned], y[learned])
            seconds = time.perf_counter() - start
            start, used = time.perf_counter(), processor_seconds(peer.pids())
            for i in unseen:
                p[i] = peer.ask(mails[i])
                verdicts[i] = peer.verdict(p[i])
            if number == 0:
                count = len(unseen)
                out = {
                    "learn": seconds,
                    "mails/s": count / (time.perf_counter() - start),
                    "CPU": (processor_seconds(peer.pids()) - used) / count * 1e3,
                    "memory": memory(peer.pids()) if peer.processes else peak_of_one(peer, mails[unseen[0]]),
                }
        finally:
            peer.stop()
            shutil.rmtree(folder, ignore_errors=True)
    asked = ~np.isnan(p)
    p, y, verdicts = p[asked], y[asked], verdicts[asked]
    spam = y == "spam"
    clipped = np.clip(p, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    return {
        "log loss": -np.log(np.where(spam, clipped, 1.0 - clipped)).mean(),
        "accuracy": ((p >= 0.5) == spam).mean(),
        "1 - AUC": 1.0 - roc_auc_score(spam, p),
        "missed at 0.1 %": missed_at(p, spam, 0.001),
        "ham lost": (verdicts[~spam] == "spam").mean(),
        "spam caught": (verdicts[spam] == "spam").mean(),
        "spam let through": (verdicts[spam] == "ham").mean(),
        "unsure": (verdicts == "unsure").mean(),
        **out,
    }


def peak_of_one(peer: Peer, raw: bytes) -> float:
    """The memory of a program that starts for every mail, in MB."""
    command = ["bogofilter", "-C", "-d", peer.folder, "-T"]
    if isinstance(peer, Deciban):
        command = [sys.executable, "-m", "deciban", "filter", "--alone", str(peer.model)]
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, command)], input=raw, capture_output=True, check=True)
    return int(done.stdout) / 1024


COLUMNS = {
    "log loss": "{:.4f}",
    "accuracy": "{:.2%}",
    "1 - AUC": "{:.4%}",
    "missed at 0.1 %": "{:.1%}",
    "ham lost": "{:.2%}",
    "spam caught": "{:.1%}",
    "spam let through": "{:.2%}",
    "unsure": "{:.2%}",
    "learn": "{:.0f} s",
    "mails/s": "{:.0f}",
    "CPU": "{:.1f} ms",
    "memory": "{:.0f} MB",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, default=3, help="the mails are cut into so many parts (default 3)")
    parser.add_argument(
        "--tested", type=int, default=1, help="parts that are asked about, one after another (default 1)"
    )
    parser.add_argument("--only", nargs="+", default=list(PEERS), choices=list(PEERS), help="filters to compare")
    arguments = parser.parse_args()
    mails, y = load()
    split = StratifiedKFold(arguments.folds, shuffle=True, random_state=0).split(mails, y)
    folds = [pair for _, pair in zip(range(arguments.tested), split, strict=False)]
    asked = sum(len(unseen) for _, unseen in folds)
    lines = [
        "# Filters of mail, side by side",
        "",
        f"{len(y):,} mails of the SpamAssassin corpus, {(y == 'spam').mean():.0%} of them spam: "
        f"{len(folds[0][0]):,} are learned, and {asked:,} others asked about,",
        "one at a time. Log loss in nats, accuracy at a probability of 0.5, *missed at 0.1 %* of spam at a threshold",
        "that loses 0.1 % of ham; then the filter's own three answers. *CPU* is processor time for each mail, of the",
        "program that asks and of the server; *mails/s* depends on how busy the machine is.",
        f"Written by `python benchmarks/filters.py` with deciban {deciban.__version__}.",
        "",
        f"| filter | {' | '.join(COLUMNS)} |",
        "|---|" + "---:|" * len(COLUMNS),
    ]
    print("\n".join(lines[-2:]))
    for name in arguments.only:
        if reason := PEERS[name].why_missing():
            print(f"{name} is left out: {reason}")
            continue
        figures = measured(PEERS[name], mails, y, folds)
        lines.append(f"| {name} | " + " | ".join(form.format(figures[c]) for c, form in COLUMNS.items()) + " |")
        print(lines[-1], flush=True)
    OUT.mkdir(exist_ok=True)
    (OUT / "filters.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
