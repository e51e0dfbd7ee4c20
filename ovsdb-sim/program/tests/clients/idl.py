"""The Python IDL as a client: prints all notifications, without UUIDs."""

import sys
import time

import ovs.db.idl
import ovs.poller

remote, schema = sys.argv[1:3]
# Timeout of a step: far more than it needs, even on a loaded machine.
STEP_TIMEOUT = 60
# Columns that hold UUIDs are shown by their sizes.
REFERENCES = ("ports", "acls")


class Idl(ovs.db.idl.Idl):
    def __init__(self, remote, schema):
        helper = ovs.db.idl.SchemaHelper(schema)
        helper.register_columns("NB_Global", ["nb_cfg", "options", "external_ids"])
        helper.register_table("Logical_Switch")
        helper.register_table("Logical_Switch_Port")
        self.notifications = []
        super().__init__(remote, helper)

    def notify(self, event, row, updates=None):
        if row._table.name != "Database":
            self.notifications.append(f"{event} {row._table.name} {shown(row)} {shown(updates)}")

    def print_notifications(self):
        # The order of the tables and rows of one message is arbitrary.
        print(*sorted(self.notifications), sep="\n")
        self.notifications = []


def shown(row):
    if row is None or row._data is None:
        return ""
    data = {c: len(d.values) if c in REFERENCES else d.to_string() for c, d in row._data.items()}
    return " ".join(f"{column}={data[column]}" for column in sorted(data))


def until(what, *idls):
    deadline = time.time() + STEP_TIMEOUT
    while True:
        for idl in idls:
            idl.run()
        if what():
            break
        if time.time() > deadline:
            sys.exit("it did not come to this")
        poller = ovs.poller.Poller()
        for idl in idls:
            idl.wait(poller)
        poller.timer_wait(100)
        poller.block()
    for idl in idls:
        idl.print_notifications()


def commit(work):
    transaction = ovs.db.idl.Transaction(idl)
    transaction.add_comment("a comment")
    work(transaction)
    status = transaction.commit_block()
    idl.print_notifications()
    error = transaction.get_error() if status == ovs.db.idl.Transaction.ERROR else ""
    print(ovs.db.idl.Transaction.status_to_string(status), error)


def rows(table):
    return list(idl.tables[table].rows.values())


idl = Idl(remote, schema)
until(idl.has_ever_connected, idl)


def create(txn):
    txn.insert(idl.tables["NB_Global"]).external_ids = {"q": "r"}
    switch = txn.insert(idl.tables["Logical_Switch"])
    switch.name = "a"
    switch.other_config = {"x": "1", "y": "2"}
    port = txn.insert(idl.tables["Logical_Switch_Port"])
    port.name = "p"
    switch.addvalue("ports", port.uuid)
    switch.setkey("external_ids", "k", "v")


commit(create)
switch = rows("Logical_Switch")[0]


def change(txn):
    switch.verify("name")
    switch.name = "b"
    switch.setkey("other_config", "x", "9")
    switch.delkey("other_config", "y")


commit(change)


def count(txn):
    rows("NB_Global")[0].verify("nb_cfg")
    rows("NB_Global")[0].nb_cfg = 5


commit(count)


def duplicate(txn):
    for name in ("q", "q"):
        port = txn.insert(idl.tables["Logical_Switch_Port"])
        port.name = name
        switch.addvalue("ports", port.uuid)


commit(duplicate)

# Conditions.
idl.cond_change("Logical_Switch", [["name", "==", "zzz"]])
until(lambda: not rows("Logical_Switch"), idl)
idl.cond_change("Logical_Switch", [["name", "==", "b"], ["name", "==", "c"]])
until(lambda: rows("Logical_Switch"), idl)
switch = rows("Logical_Switch")[0]


def unplug(txn):
    switch.ports = []
    switch.name = "c"


commit(unplug)
idl.cond_change("Logical_Switch", [True])

# Locks, and transactions without them.
idl.set_lock("l")
until(lambda: idl.has_lock, idl)
other = Idl(remote, schema)
other.set_lock("l")
until(lambda: other.is_lock_contended and other.tables["Logical_Switch"].rows, idl, other)
commit(lambda txn: switch.setkey("other_config", "x", "10"))
idl.set_lock(None)
until(lambda: other.has_lock, other, idl)
commit(lambda txn: switch.delete())
until(lambda: not other.tables["Logical_Switch"].rows, other)
print("locks", idl.has_lock, other.has_lock)
