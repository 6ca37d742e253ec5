"""Run a command, and print how long it took: timed.py "what it does" command argument …"""

from __future__ import annotations

import subprocess
import sys
import time

what, *command = sys.argv[1:]
print(f"== {what}", flush=True)
began = time.monotonic()
code = subprocess.call(command)
print(f"== {what}: {time.monotonic() - began:.1f} s{'' if code == 0 else ', failed'}", flush=True)
sys.exit(code)
