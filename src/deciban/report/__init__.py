"""One page about a model, with everything in it: what it learned, how good it is, and why it says what it says."""

from deciban.report.page import page

__all__ = ["page"]
