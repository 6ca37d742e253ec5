"""HTML to the text that a reader sees, in time linear in its length even for broken HTML.

The standard library's parser takes quadratic time on some broken markup and raises ValueError on some character
references, so tags are parsed here.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache

from deciban._kernel import mail as kernel

TARGET = re.compile(r"""\b(?:href|src)\s*+=\s*+["']?\s*+(?:(?:[a-z]++:)?//|mailto:)([^/\s"'>?\#]++)""", re.IGNORECASE)
NOT_SHOWN = {name: re.compile(rf"</{name}\b", re.IGNORECASE) for name in ("script", "style")}

BLOCK_TAGS = (
    "address article aside blockquote body br center dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 head "
    "header hr html li main nav ol option p pre section select table tbody textarea tfoot thead title tr ul"
)
LINE_TAGS = frozenset(BLOCK_TAGS.split())
CELL_TAGS = frozenset(("td", "th", "button", "input", "img", "label"))

# No character has a number this high, and int() refuses numbers of thousands of digits.
LEADING_ZEROS = re.compile(r"&#0++(?=[0-9])")
TOO_HIGH = re.compile(r"&#[0-9]{8,};?")
MAX_KEPT = 40  # characters of a reference: a name has fewer, a number may have a million zeros


def text_of_html(markup: str) -> str:
    """Markup as lines of text: scripts, styles and comments dropped, link targets kept by their host.

    Comments and tags inside a line join what they separate, as on the screen.

    >>> text_of_html("<p>vi<!-- x -->ag<b>ra</b> &amp; more<br>here: <a href='http://shop.example/x?y'>click</a>")
    'viagra & more\\nhere: shop.example click'
    """
    return kernel.squeezed(unescaped(TAGS.shown(markup)))


def hosts(attributes: str) -> list[str]:
    """The hosts of the links and pictures of a tag.

    >>> hosts(' href="http://bank.example@thief.example:80/login"'), hosts(" href=mailto:me@post.example?subject=no")
    (['thief.example'], ['post.example'])
    """
    if "&" in attributes:
        attributes = unescaped(attributes)
    return [target.rpartition("@")[2].partition(":")[0] for target in TARGET.findall(attributes)]


def unescaped(text: str) -> str:
    """Character references replaced.

    >>> unescaped("v&#00000105;agra &lt;&nbsp;5 &eacute; &#99999999999;")
    'viagra <\\xa05 é �'
    """
    plain = kernel.unescaped(text, character)
    if plain is None:  # a number may be too high
        text = TOO_HIGH.sub("\ufffd", LEADING_ZEROS.sub("&#", text))
        plain = kernel.unescaped(text, character)
    assert plain is not None  # no number is as long
    return plain


def character(reference: str) -> str:
    """What one reference stands for."""
    return (kept_character if len(reference) <= MAX_KEPT else html.unescape)(reference)


# A mail has the same few again and again.
kept_character = lru_cache(1024)(html.unescape)


TAGS = kernel.Tags(LINE_TAGS, CELL_TAGS, NOT_SHOWN, hosts)
