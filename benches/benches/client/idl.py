"""The Python IDL as the measured client; `subject.rs` does the same with Patchbay's client."""

import os
import resource
import sys
import uuid

import ovs.db.idl
import ovs.poller

TABLES = ["Logical_Router", "Logical_Router_Port", "Logical_Router_Static_Route"]


def run_until(idl, there):
    while not there():
        seqno = idl.change_seqno
        idl.run()
        if idl.change_seqno == seqno:
            poller = ovs.poller.Poller()
            idl.wait(poller)
            poller.block()


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    mode, remote, schema = sys.argv[1:]
    helper = ovs.db.idl.SchemaHelper(location=schema)
    for table in TABLES:
        helper.register_table(table)
    idl = ovs.db.idl.Idl(remote, helper)
    run_until(idl, idl.has_ever_connected)
    if mode == "sync":
        # Destructors do not run, because those of a program that goes on would not run either.
        os._exit(0)
    ports = idl.tables["Logical_Router_Port"].rows
    for line in sys.stdin:
        port, mac = line.split()
        port = uuid.UUID(port)
        before = cpu()
        print("waiting", flush=True)
        run_until(idl, lambda: port in ports and ports[port].mac == mac)
        print(cpu() - before, flush=True)


main()
