"""What choosing loops by the processor gives (docs/decisions/0037-wheels.md), for the cases of `release.py`.

The package is compiled again without copies of loops: for the first processors of the architecture (*plain*; also with
clang, if there is one), and for this machine's alone (*native*, which a wheel cannot be). All take turns with the
version that is installed (*copies*), each time in a new process; the least processor time counts.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from release import ROOT, best_of, install

ONE = "-DDECIBAN_ONE_COPY"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=3, help="processes of each build (default: %(default)s)")
    given = parser.parse_args()
    builds = {"plain": {"CFLAGS": ONE}, "native": {"CFLAGS": f"{ONE} -march=native"}}
    if shutil.which("clang"):
        builds["plain, clang"] = {"CFLAGS": ONE, "CC": "clang"}
    with tempfile.TemporaryDirectory() as name:
        paths: dict[str, str | None] = {"copies": None}
        for build, environment in builds.items():
            paths[build] = str(Path(name, build))
            install(ROOT, paths[build], **environment)
        best = best_of(paths, given.turns)
    order = [build for build in ("plain", "plain, clang", "copies", "native") if build in best]
    print(f"| ms | {' | '.join(order)} |\n|---{'|---' * len(order)}|")
    for case in best["copies"]:
        print(f"| `{case}` | {' | '.join(f'{1e3 * best[build][case]:.3g}' for build in order)} |")


if __name__ == "__main__":
    main()
