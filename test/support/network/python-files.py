"""Prints the paths that packets.py needs on another machine, one per line: interpreter, modules and libraries."""
import os
import re
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import packets  # noqa: E402, F401

"x".encode("idna")  # a name lookup imports this codec
paths = {os.path.realpath(sys.executable), "/usr/bin/python3", os.path.join(here, "packets.py")}
for module in list(sys.modules.values()):
    for path in (getattr(module, "__file__", None), getattr(module, "__cached__", None)):
        if path and os.path.exists(path) and not path.startswith(here):
            paths.add(path)
for path in [path for path in paths if path.endswith(".so") or path.startswith("/usr/bin/")]:
    linked = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    libraries = [word for line in linked.splitlines() for word in line.split() if word.startswith("/")]
    # The machine already has the dynamic loader and libc, for its SSH server (test/support/guests/tiny-guest).
    paths.update(path for path in libraries if not re.search(r"/(ld-linux|libc\.so)", path))
print("\n".join(sorted(paths)))
