"""An HTML page about a model: what it learned, how good it is, and the evidence behind its predictions."""

from deciban.report.page import page

__all__ = ["page"]
