"""A mailbox on an IMAP server, sorted by a filter that learns from what its owner moves."""
