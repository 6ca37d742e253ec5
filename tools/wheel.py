"""A source archive, a wheel built from it, and a trial of the wheel where there is no compiler: `make wheel`.

dist/ gets both, the wheel under the oldest tag that its symbols allow. The trial is a new environment with the wheel
and what it requires: the smoke test, the demo, and how long installation and a first result take.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
COMPILERS = ("cc", "gcc", "clang", "c++", "tcc", "cython")
FIRST = """
from deciban import TextClassifier
texts = ["win money now", "free money", "lunch at noon", "see you at noon"]
model = TextClassifier().fit(texts, ["spam", "spam", "ham", "ham"])
print(model.predict(["money for lunch now"])[0])
"""


def run(*command: str | Path, **more: object) -> tuple[float, float]:
    """Runs a command to its end, and returns the seconds it took: by the clock, and of the processor."""
    began, used = time.perf_counter(), os.times()
    subprocess.run(command, check=True, **more)  # type: ignore[call-overload]
    now = os.times()
    processor = now.children_user - used.children_user + now.children_system - used.children_system
    return time.perf_counter() - began, processor


def build(folder: Path) -> tuple[Path, Path]:
    """The source archive, and the wheel as it is compiled from it."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, stdout=subprocess.DEVNULL)
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    version = source.name.removesuffix(".tar.gz").split("-")[1]  # the archive has what is committed
    assert wheel.name.split("-")[1] == version, f"commit the change of version first: {source.name}, {wheel.name}"
    return source, wheel


def repair(wheel: Path, folder: Path) -> Path:
    """The wheel under the tag of the oldest C library that has every symbol it uses; others are as they are."""
    if not sys.platform.startswith("linux"):
        return Path(shutil.copy(wheel, folder))
    auditwheel = Path(sysconfig.get_path("scripts"), "auditwheel")
    run(auditwheel, "show", wheel)
    run(auditwheel, "repair", "--strip", "--wheel-dir", folder, wheel)
    (repaired,) = folder.glob("*.whl")
    return repaired


def trial(wheel: Path, folder: Path) -> dict[str, tuple[float, float]]:
    """Seconds of installation and use in a new environment whose PATH has nothing but itself."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    bare = {"PATH": str(folder / "bin"), "HOME": str(folder), "COLUMNS": "100"}
    bare |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    found = [name for name in COMPILERS if shutil.which(name, path=bare["PATH"])]
    assert not found, f"the environment without a compiler has {found}"
    options = ("--quiet", "--disable-pip-version-check", "--only-binary=:all:")
    seconds = {"installation": run(python, "-m", "pip", "install", *options, wheel, env=bare, cwd=folder)}
    again = run(python, "-m", "pip", "install", *options, "--no-deps", "--force-reinstall", wheel, env=bare, cwd=folder)
    seconds["installation of deciban alone"] = again
    seconds["first result"] = run(python, "-c", FIRST, env=bare, cwd=folder, stdout=subprocess.DEVNULL)
    seconds["smoke test"] = run(python, ROOT / "tests" / "smoke.py", env=bare, cwd=folder)
    demo = folder / "demo"
    seconds["demo"] = run(
        folder / "bin" / "deciban", "demo", "--folder", demo, env=bare, cwd=folder, stdout=subprocess.DEVNULL
    )
    assert any(demo.iterdir()), "the demo has written nothing"
    return seconds


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, wheel = build(folder)
        source = Path(shutil.copy(source, DIST))
        wheel = repair(wheel, DIST)
        print()
        seconds = trial(wheel, folder / "bare")
    print()
    for made in (source, wheel):
        print(f"{made.stat().st_size / 1e6:8.2f} MB  {made.relative_to(ROOT)}")
    for what, (clock, processor) in seconds.items():
        print(f"{clock:8.1f} s   {what} ({processor:.1f} s of the processor)")


if __name__ == "__main__":
    main()
