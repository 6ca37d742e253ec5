"""Text: documents as people have them, the terms in them, and counts of terms."""

from deciban.text.background import background
from deciban.text.documents import Lines

__all__ = ["Lines", "background"]
