"""Runs a program and prints its wall-clock seconds, CPU seconds and peak resident bytes."""

import resource
import subprocess
import sys
import time

begin = time.monotonic()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
wall = time.monotonic() - begin
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
