"""python-ovs' IDL, with one connection for all tests."""

import json

import pytest

idl = pytest.importorskip("ovs.db.idl", reason="python-ovs is not installed")
jsonrpc = pytest.importorskip("ovs.jsonrpc")
stream = pytest.importorskip("ovs.stream")

LIMIT_MS = 60_000


@pytest.fixture(scope="module")
def northbound(ovsdb_sim_server, tmp_path_factory):
    schema = tmp_path_factory.mktemp("schema") / "nb.ovsschema"
    # The schema comes from the server, as ovsdb-client get-schema prints it.
    error, connection = stream.Stream.open_block(stream.Stream.open(ovsdb_sim_server.remote), LIMIT_MS)
    assert error == 0
    rpc = jsonrpc.Connection(connection)
    error, reply = rpc.transact_block(jsonrpc.Message.create_request("get_schema", ["OVN_Northbound"]))
    assert error == 0
    rpc.close()
    schema.write_text(json.dumps(reply.result))
    helper = idl.SchemaHelper(str(schema))
    helper.register_table("Logical_Switch")
    helper.register_table("Logical_Switch_Port")
    client = idl.Idl(ovsdb_sim_server.remote, helper)
    yield client
    client.close()


def commit(client, transaction):
    status = transaction.commit_block()
    assert status in (idl.Transaction.SUCCESS, idl.Transaction.UNCHANGED), transaction.get_error()


def names(client):
    return sorted(row.name for row in client.tables["Logical_Switch"].rows.values())


@pytest.mark.parametrize("number", range(3))
def test_a_connection_sees_each_test_from_its_beginning(ovsdb_sim, northbound, number):
    ovsdb_sim.insert_rows({"Logical_Switch": {"base": {}}})
    ovsdb_sim.sync(northbound, northbound.run)
    assert names(northbound) == ["base"]
    transaction = idl.Transaction(northbound)
    row = transaction.insert(northbound.tables["Logical_Switch"])
    row.name = f"sw{number}"
    commit(northbound, transaction)
    ovsdb_sim.sync(northbound, northbound.run)
    assert names(northbound) == ["base", f"sw{number}"]
    assert f"Logical_Switch sw{number}" in ovsdb_sim.snapshot()
    assert len(ovsdb_sim.call("sim_connections")) == 1


def test_a_lost_reply_is_found_out(ovsdb_sim, northbound):
    ovsdb_sim.sync(northbound, northbound.run)
    with ovsdb_sim.fault({"lose_reply": "disconnected"}) as fault:
        transaction = idl.Transaction(northbound)
        transaction.insert(northbound.tables["Logical_Switch"]).name = "lost"
        assert transaction.commit_block() == idl.Transaction.TRY_AGAIN
        assert not fault.is_set
    ovsdb_sim.sync(northbound, northbound.run)
    assert names(northbound) == ["lost"]
