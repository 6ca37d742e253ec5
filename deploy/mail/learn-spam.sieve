# IMAPSieve: runs when a user moves a mail into Junk.
require ["vnd.dovecot.pipe", "copy"];
pipe :copy "deciban-filter" ["--socket", "/run/deciban/socket", "--correct", "spam"];
