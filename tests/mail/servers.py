"""Mail servers of the tests' own: Postfix and Dovecot from Debian, on loopback, in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import smtplib
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from postgres_server import free_port

WAIT_SECONDS = 60
NOBODY = pwd.getpwnam("nobody")

MAIN_CF = """
compatibility_level = 3.6
queue_directory = {folder}/spool
data_directory = {folder}/lib
mail_owner = postfix
setgid_group = postdrop
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
myhostname = mail.example.test
mydestination =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
maillog_file = {folder}/spool/log
maillog_file_prefixes = {folder}
alias_maps =
alias_database =
local_recipient_maps =
virtual_mailbox_domains = example.test
virtual_mailbox_base = {folder}/mail
virtual_mailbox_maps = static:box/
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{uid}
virtual_minimum_uid = 1
message_size_limit = 50000000
virtual_mailbox_limit = 0
{more}
"""
MASTER_CF = """
127.0.0.1:{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
anvil unix - - n - 1 anvil
virtual unix - n n - - virtual
error unix - - n - - error
postlog unix-dgram n - n - 1 postlogd
"""


def needs_root(program):
    if os.geteuid() != 0:
        pytest.skip(f"{program} needs root to start")


class Postfix:
    """A Postfix that delivers all mail to one Maildir."""

    def __init__(self, more=""):
        if shutil.which("postfix") is None or not os.path.exists("/usr/lib/postfix/sbin/master"):
            pytest.skip("Postfix is not installed: make mail")
        needs_root("Postfix")
        self.folder, self.port = Path(tempfile.mkdtemp(prefix="deciban-postfix-")), free_port()
        self.folder.chmod(0o755)
        for name in ("etc", "spool", "lib", "mail"):
            (self.folder / name).mkdir()
        shutil.chown(self.folder / "lib", "postfix")
        os.chown(self.folder / "mail", NOBODY.pw_uid, NOBODY.pw_gid)
        settings = MAIN_CF.format(folder=self.folder, uid=NOBODY.pw_uid, more=more)
        (self.folder / "etc/main.cf").write_text(settings)
        (self.folder / "etc/master.cf").write_text(MASTER_CF.format(port=self.port))

    def command(self, what):
        done = subprocess.run(
            ["postfix", "-c", self.folder / "etc", what], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"{done.stderr}\n{self.log()}"

    def log(self):
        path = self.folder / "spool/log"
        return path.read_text() if path.exists() else ""

    def send(self, raw):
        try:
            with smtplib.SMTP("127.0.0.1", self.port, timeout=30) as smtp:
                lines = raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
                smtp.sendmail("sender@out.example", ["me@example.test"], lines)
        except smtplib.SMTPException as error:
            pytest.fail(f"{error}: {self.log()}")

    def received(self, count):
        """The mails in the mailbox, once there are so many."""
        end = time.monotonic() + WAIT_SECONDS
        while (
            len(files := sorted((self.folder / "mail/box/new").glob("*"), key=lambda path: path.stat().st_mtime_ns))
            < count
        ):
            assert time.monotonic() < end, self.log()
            time.sleep(0.05)
        return [file.read_bytes() for file in files]

    def __enter__(self):
        self.command("start")
        wait_for_port(self.port, self.log)
        return self

    def __exit__(self, *error):
        self.command("stop")
        shutil.rmtree(self.folder)


def wait_for_port(port, log):
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < end, log()
            time.sleep(0.05)


DOVECOT_CONF = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = yes
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
disable_plaintext_auth = no
auth_failure_delay = 0
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
mail_location = maildir:{folder}/mail/%u:LAYOUT=fs
mail_max_userip_connections = 100
first_valid_uid = 1
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service stats {{
  chroot =
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%u
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Junk {{
    auto = create
    special_use = \\Junk
  }}
  mailbox Archive {{
    auto = create
  }}
}}
{more}
"""


class Dovecot:
    """A Dovecot with one mailbox, and a certificate of its own."""

    user, password = "ann@example.test", "secret-of-ann"

    def __init__(self, more=""):
        if shutil.which("dovecot") is None:
            pytest.skip("Dovecot is not installed: make mail")
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed: it makes the certificate")
        needs_root("Dovecot")
        self.folder, self.port, self.tls_port = (
            Path(tempfile.mkdtemp(prefix="deciban-dovecot-")),
            free_port(),
            free_port(),
        )
        self.folder.chmod(0o755)
        (self.folder / "mail").mkdir()
        os.chown(self.folder / "mail", NOBODY.pw_uid, NOBODY.pw_gid)
        self.certificate = self.folder / "cert.pem"
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        key = ["-newkey", "rsa:2048", "-nodes", "-keyout", self.folder / "key.pem", "-out", self.certificate]
        subprocess.run(["openssl", "req", "-x509", "-days", "2", *subject, *key], check=True, capture_output=True)
        conf = DOVECOT_CONF.format(
            folder=self.folder,
            user="dovecot",
            group="dovecot",
            uid=NOBODY.pw_uid,
            gid=NOBODY.pw_gid,
            port=self.port,
            tls_port=self.tls_port,
            password=self.password,
            more=more,
        )
        (self.folder / "dovecot.conf").write_text(conf)

    def log(self):
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def __enter__(self):
        self.process = subprocess.Popen(
            ["dovecot", "-F", "-c", self.folder / "dovecot.conf"], stderr=subprocess.PIPE, text=True
        )
        wait_for_port(self.port, lambda: self.log() + (self.process.stderr.read() if self.process.poll() else ""))
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.process.communicate(timeout=30)
        shutil.rmtree(self.folder)
