# Sieve (Dovecot, with vnd.dovecot.filter): run the filter when mail is delivered, then file by its header field.
# Without Postfix's milter; with it, leave out the first action: the field is there already.
require ["fileinto", "mailbox", "vnd.dovecot.filter"];

filter "deciban-filter" ["--socket", "/run/deciban/socket"];

if header :matches "X-Deciban" "spam;*" {
    fileinto :create "Junk";
} elsif header :matches "X-Deciban" "unsure;*" {
    fileinto :create "Unsure";
}
