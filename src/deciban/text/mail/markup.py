"""HTML to the text that a reader sees. Time is linear in its length, however it is broken.

The standard library's parser takes quadratic time on some broken markup and a ValueError on some character references,
so that tags are found here.
"""

from __future__ import annotations

import html
import re

OPENING = re.compile(r"<(?:(!--)|[!?]|(/?)([a-zA-Z][^\s/>]*))")
REST_OF_TAG = re.compile(r"""(?:[^>"']++|"[^"]*+"|'[^']*+')*+>""")
TARGET = re.compile(r"""\b(?:href|src)\s*+=\s*+["']?\s*+(?:(?:[a-z]++:)?//|mailto:)([^/\s"'>?\#]++)""", re.IGNORECASE)
NOT_SHOWN = {name: re.compile(rf"</{name}\b", re.IGNORECASE) for name in ("script", "style")}

BLOCK_TAGS = (
    "address article aside blockquote body br center dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 head "
    "header hr html li main nav ol option p pre section select table tbody textarea tfoot thead title tr ul"
)
LINE_TAGS = frozenset(BLOCK_TAGS.split())
CELL_TAGS = frozenset(("td", "th", "button", "input", "img", "label"))

# No character has so high a number, and int() refuses to read numbers of thousands of digits.
LEADING_ZEROS = re.compile(r"&#0++(?=[0-9])")
TOO_HIGH = re.compile(r"&#[0-9]{8,};?")


def text_of_html(markup: str) -> str:
    """Markup as lines of text: scripts, styles and comments dropped, link targets kept by their host.

    Comments and tags inside a line join what they separate, as on the screen.

    >>> text_of_html("<p>vi<!-- x -->ag<b>ra</b> &amp; more<br>here: <a href='http://shop.example/x?y'>click</a>")
    'viagra & more\\nhere: shop.example click'
    """
    markup = markup.replace("\n", " ")  # a line ends where a tag says so
    out: list[str] = []
    at, quotes, comments = 0, True, True
    while opening := OPENING.search(markup, at):
        out.append(markup[at : opening.start()])
        comment, closing, name = opening.groups()
        end = markup.find("-->", opening.end() - 2) if comment and comments else -1  # "<!-->" is a whole comment
        if end >= 0:
            at = end + 3
            continue
        comments = comments and not comment  # one that never ends: none that follows does, and this ends as a tag
        whole = REST_OF_TAG.match(markup, opening.end()) if quotes and name else None
        # One tag whose quotes do not pair up before the end, and quotes are no longer asked for: to look through all
        # of the rest again for each tag would be quadratic.
        quotes = quotes and (whole is not None or not name)
        end = whole.end() if whole else markup.find(">", opening.end()) + 1
        if not end:  # cut in the middle of a tag: what is left may still say something
            at = opening.start()
            break
        at = end
        if name:
            name = name.lower()
            if name in LINE_TAGS:
                out.append("\n")
            elif name in CELL_TAGS:
                out.append(" ")
            if not closing:
                attributes = markup[opening.end() : end]
                if "=" in attributes:
                    out.extend(f" {host} " for host in hosts(attributes))
                if name in NOT_SHOWN:
                    over = NOT_SHOWN[name].search(markup, at)
                    at = over.start() if over else len(markup)
    out.append(markup[at:])
    return lines(unescaped("".join(out)))


def hosts(attributes: str) -> list[str]:
    """Where the links and pictures of a tag lead to.

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
    if "&#" in text:
        text = TOO_HIGH.sub("\ufffd", LEADING_ZEROS.sub("&#", text))
    return html.unescape(text)


def lines(text: str) -> str:
    """No blank lines and no runs of blanks."""
    return "\n".join(line for line in (" ".join(line.split()) for line in text.split("\n")) if line)
