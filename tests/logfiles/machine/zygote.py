"""Starts ``rsocket-trio`` by forks of a process that has imported it: hundreds of starts are quick.

Each line of standard input is a request, in JSON: to start a command, which is answered by its pid,
or to wait for the end of a pid, which is answered by its status as of `subprocess`.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time

_real = time.time
_jump = [0.0]
time.time = lambda: _real() + _jump[0]  # before the package imports it

from rsocket_trio.cli import lumberjack_ship  # noqa: E402, F401 - imported once for all
from rsocket_trio.cli.main import main  # noqa: E402


def start(request: dict) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _jump[0] = request["jump"]
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor, number in ((null, 0), (null, 1), (log, 2)):
            os.dup2(descriptor, number)
        if request["files"] is not None:
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (request["files"], hard))
        status = main(request["argv"])
    finally:
        os._exit(status)


for line in sys.stdin:
    request = json.loads(line)
    if "wait" in request:
        _, status = os.waitpid(request["wait"], 0)
        answer = os.waitstatus_to_exitcode(status)
    else:
        answer = start(request)
    print(answer, flush=True)
