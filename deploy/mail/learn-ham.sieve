# IMAPSieve: runs when a user moves a mail out of Junk. A mail that goes to the waste bin is not ham.
require ["vnd.dovecot.pipe", "copy", "environment", "variables"];
if environment :matches "imap.mailbox" "*" {
    set "folder" "${1}";
}
if string "${folder}" "Trash" {
    stop;
}
pipe :copy "deciban-filter" ["--socket", "/run/deciban/socket", "--correct", "ham"];
