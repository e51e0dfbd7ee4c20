"""The program ovsdb-sim: where it is, and how it starts and ends."""

import os
import shutil
import subprocess
import sysconfig
import tempfile

NAME = "ovsdb-sim"
# Environment variable with the path of the program.
VARIABLE = "PATCHBAY_OVSDB_SIM"
# Line of standard output that follows when clients can connect.
CONTROL_LINE = "control API on "
END_TIMEOUT = 10


class ProgramError(Exception):
    """The program cannot be found or does not start."""


def find():
    """Returns the path of the program: that of the environment, of this package, or of PATH."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    own = os.path.join(sysconfig.get_path("scripts"), NAME)
    if os.access(own, os.X_OK):
        return own
    found = shutil.which(NAME)
    if not found:
        raise ProgramError(f"{NAME} is neither in {VARIABLE}, in this package, nor in PATH")
    return found


class Process:
    """A running server with a folder of its own. It ends with this process, too."""

    def __init__(self, arguments, program=None):
        self._folder = tempfile.TemporaryDirectory(prefix="ovsdb-sim-")
        self._log = tempfile.TemporaryFile()
        socket = os.path.join(self._folder.name, "db.sock")
        self.remote = f"unix:{socket}"
        command = [
            program or find(),
            f"--listen=punix:{socket}",
            "--control=127.0.0.1:0",
            f"--exit-with-parent={os.getpid()}",
            *arguments,
        ]
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True
            )
        except OSError as error:
            self._close()
            raise ProgramError(f"{command[0]}: {error}") from error
        self.control = self._wait_for_control()

    def _wait_for_control(self):
        for line in self._child.stdout:
            if line.startswith(CONTROL_LINE):
                return line[len(CONTROL_LINE) :].strip()
        status = self._child.wait()
        log = self.log()
        self._close()
        raise ProgramError(f"{NAME} has ended with status {status}:\n{log}")

    def log(self):
        """Returns the log up to now."""
        # A position of its own: the server appends at that of the file.
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    def stop(self):
        """Ends the server. A second call has no effect."""
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(END_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._child.stdout.close()
        self._close()

    def _close(self):
        self._log.close()
        self._folder.cleanup()
