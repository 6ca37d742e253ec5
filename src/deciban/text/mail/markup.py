"""HTML to the text that a reader sees, in time linear in its length even for broken HTML.

The standard library's parser takes quadratic time on some broken markup and raises ValueError on some character
references, so tags are parsed here.
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

# No character has a number this high, and int() refuses numbers of thousands of digits.
LEADING_ZEROS = re.compile(r"&#0++(?=[0-9])")
TOO_HIGH = re.compile(r"&#[0-9]{8,};?")


def text_of_html(markup: str) -> str:
    """Markup as lines of text: scripts, styles and comments dropped, link targets kept by their host.

    Comments and tags inside a line join what they separate, as on the screen.

    >>> text_of_html("<p>vi<!-- x -->ag<b>ra</b> &amp; more<br>here: <a href='http://shop.example/x?y'>click</a>")
    'viagra & more\\nhere: shop.example click'
    """
    markup = markup.replace("\n", " ")  # only tags end lines
    out: list[str] = []
    at, quotes, comments = 0, True, True
    while opening := OPENING.search(markup, at):
        out.append(markup[at : opening.start()])
        comment, closing, name = opening.groups()
        end = markup.find("-->", opening.end() - 2) if comment and comments else -1  # "<!-->" is a whole comment
        if end >= 0:
            at = end + 3
            continue
        comments = comments and not comment  # if one never ends, neither do later ones, and this one ends like a tag
        whole = REST_OF_TAG.match(markup, opening.end()) if quotes and name else None
        # After one tag whose quotes never close, quotes are ignored: searching the whole rest for every tag would be
        # quadratic.
        quotes = quotes and (whole is not None or not name)
        end = whole.end() if whole else markup.find(">", opening.end()) + 1
        if not end:  # cut in the middle of a tag: the rest is kept as text
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
    if "&#" in text:
        text = TOO_HIGH.sub("\ufffd", LEADING_ZEROS.sub("&#", text))
    return html.unescape(text)


def lines(text: str) -> str:
    """The text without blank lines and runs of blanks."""
    return "\n".join(line for line in (" ".join(line.split()) for line in text.split("\n")) if line)
