"""Mail as text: raw messages, mailboxes and folders to the text that a reader sees, using only the standard library.

>>> from deciban.text import mail
>>> letter = mail.read("From: Ann <ann@home.example>\\nSubject: Lunch\\n\\nAt noon?\\n")
>>> letter.sender, letter.subject, letter.body
('Ann <ann@home.example>', 'Lunch', 'At noon?\\n')
>>> list(mail.tokens(letter))[-5:]
['from:>', 'subject:lunch', 'at', 'noon', '?']
"""

from deciban.text.mail.folders import read_mailbox
from deciban.text.mail.message import CONTENT_HEADERS, Mail, read, tokens
from deciban.text.mail.verdict import Verdict, canonical, identity

__all__ = ["CONTENT_HEADERS", "Mail", "Verdict", "canonical", "identity", "read", "read_mailbox", "tokens"]
