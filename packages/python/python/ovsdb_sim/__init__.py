"""An OVSDB server in memory, for tests.

    with Server.start(schemas=["northbound"]) as server:
        server.insert_rows({"Logical_Switch": {"sw0": {}}})
        connect(server.remote)

With pytest, the fixture ``ovsdb_sim`` is such a server, which is empty at the beginning of each test.
"""

from ovsdb_sim.control import ControlError
from ovsdb_sim.program import ProgramError
from ovsdb_sim.server import Fault, Server

__all__ = ["ControlError", "Fault", "ProgramError", "Server"]
