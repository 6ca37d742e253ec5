"""An HTML page about a model: what it learned, how good it is, and the evidence behind its predictions."""

from deciban.report.page import N_STEPS, is_report, page

__all__ = ["N_STEPS", "is_report", "page"]
