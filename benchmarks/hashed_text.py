"""What the hashed vocabulary costs: log loss, accuracy and time compared with the vocabulary of words, on six sets of
texts.

Splits are those of text_accuracy.py: the published ones, or thirds. DECIBAN_DATA names where the data is.
"""

from __future__ import annotations

from functools import partial

from text_accuracy import OUT, TARGETS, judge, mean, splits

import deciban

SIZES = {"words": None, "2¹⁸ buckets": 2**18, "2²⁰ buckets": 2**20}


def main() -> None:
    lines = [
        "# The hashed vocabulary",
        "",
        f"deciban {deciban.__version__}; written by `python benchmarks/hashed_text.py`.",
        "Log loss, accuracy and seconds to fit of `TextClassifier(n_features=…)`.",
        "",
        "| | " + " | | | ".join(SIZES) + " | | |",
        "|---|" + "---:|" * (3 * len(SIZES)),
    ]
    print("\n".join(lines))
    for name in TARGETS:
        parts, cells = splits(name), []
        for size in SIZES.values():
            judged = mean([judge(partial(deciban.TextClassifier, n_features=size), *part) for part in parts])
            cells += [f"{judged.log_loss:.4f}", f"{judged.accuracy:.4f}", f"{judged.fit:.2f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    OUT.mkdir(exist_ok=True)
    (OUT / "hashed_text.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
