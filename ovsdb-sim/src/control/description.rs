//! Description of the control API in `OpenRPC`'s form (<https://spec.open-rpc.org>), which
//! `rpc.discover` returns.

use std::collections::BTreeMap;

use jsonrpsee::core::RegisterMethodError;
use jsonrpsee::server::RpcModule;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::SimStats;
use crate::fault::{ConnectionId, FaultId, FaultRule, FaultStatus};
use crate::model::Role;

/// Release of `OpenRPC`'s specification.
const OPENRPC: &str = "1.3.2";
/// Method that returns the description.
const DISCOVER: &str = "rpc.discover";

/// Adds the method that describes the others.
pub(super) fn add<C: Send + Sync + 'static>(
    methods: &mut RpcModule<C>,
) -> Result<(), RegisterMethodError> {
    let description = describe();
    methods.register_method(DISCOVER, move |_, _, _| description.clone())?;
    Ok(())
}

/// Parameter of a method.
struct Param {
    name: &'static str,
    is_required: bool,
    schema: Value,
}

/// Description in work: methods, and the schemas that they share.
struct Description {
    schemas: SchemaGenerator,
    methods: Vec<Value>,
}

impl Description {
    fn schema<T: JsonSchema>(&mut self) -> Value {
        self.schemas.subschema_for::<T>().to_value()
    }

    fn required<T: JsonSchema>(&mut self, name: &'static str) -> Param {
        Param { name, is_required: true, schema: self.schema::<T>() }
    }

    fn optional<T: JsonSchema>(&mut self, name: &'static str) -> Param {
        Param { name, is_required: false, schema: self.schema::<T>() }
    }

    /// Adds a method whose result is a `T`.
    fn method<T: JsonSchema>(
        &mut self,
        name: &str,
        summary: &str,
        params: impl IntoIterator<Item = Param>,
    ) {
        let params = params.into_iter().map(|param| {
            json!({"name": param.name, "required": param.is_required, "schema": param.schema})
        });
        let params: Vec<Value> = params.collect();
        let result = self.schema::<T>();
        self.methods.push(json!({
            "name": name,
            "summary": summary,
            "params": params,
            "result": {"name": "result", "schema": result},
        }));
    }
}

fn describe() -> Value {
    let settings = SchemaSettings::draft07()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let schemas = settings.into_generator();
    let mut api = Description { schemas, methods: Vec::new() };
    describe_rows(&mut api);
    describe_faults(&mut api);
    describe_server(&mut api);
    api.method::<Value>(DISCOVER, "Describes this API", []);
    json!({
        "openrpc": OPENRPC,
        "info": {"title": "ovsdb-sim control API", "version": env!("CARGO_PKG_VERSION")},
        "methods": api.methods,
        "components": {"schemas": api.schemas.take_definitions(true)},
    })
}

/// Rows by table, name and column, or their text in YAML or JSON.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema is used")]
enum Rows {
    Tables(BTreeMap<String, BTreeMap<String, BTreeMap<String, Value>>>),
    Text(String),
}

fn describe_rows(api: &mut Description) {
    let name = api.optional::<String>("name");
    api.method::<String>("sim_show", "Prints OVN_Northbound like ovn-nbctl show", [name]);
    let database = api.optional::<String>("database");
    api.method::<BTreeMap<String, BTreeMap<String, Value>>>(
        "sim_dump",
        "Returns all rows by table and UUID, in RFC 7047 notation",
        [database],
    );
    let database = api.optional::<String>("database");
    api.method::<String>(
        "sim_text",
        "Prints all rows with names in place of UUIDs: equal for equal content",
        [database],
    );
    let snapshot = api.optional::<String>("snapshot");
    api.method::<()>(
        "sim_reset",
        "Removes all rows or returns to a snapshot, clears faults, ends an outage; connections stay",
        [snapshot],
    );
    let name = api.required::<String>("name");
    api.method::<()>("sim_snapshot", "Keeps the present rows under a name", [name]);
    let name = api.required::<String>("name");
    api.method::<()>("sim_restore", "Returns to the rows of a snapshot", [name]);
    api.method::<Vec<String>>("sim_snapshots", "Returns the names of the snapshots", []);
    let rows = api.required::<Rows>("rows");
    let database = api.optional::<String>("database");
    api.method::<BTreeMap<String, BTreeMap<String, String>>>(
        "sim_insert_rows",
        "Inserts rows by table and name, with references by name, and returns their UUIDs",
        [rows, database],
    );
    let operations = api.required::<Vec<Value>>("operations");
    let database = api.optional::<String>("database");
    api.method::<Vec<Value>>(
        "sim_transact",
        "Executes the operations of a transaction, and returns their results",
        [operations, database],
    );
}

fn describe_faults(api: &mut Description) {
    let rule = api.required::<FaultRule>("rule");
    api.method::<FaultStatus>(
        "sim_set_fault",
        "Sets a fault, which strikes once unless the rule says how often",
        [rule],
    );
    api.method::<Vec<FaultStatus>>("sim_faults", "Returns the faults that are set", []);
    let fault = api.optional::<FaultId>("fault");
    api.method::<()>("sim_clear_faults", "Clears a fault, or all of them", [fault]);
    api.method::<()>("sim_go_down", "Closes all listeners and ends all connections", []);
    api.method::<()>("sim_come_back", "Serves clients again, at the same addresses", []);
}

fn describe_server(api: &mut Description) {
    api.method::<SimStats>("sim_stats", "Returns counters", []);
    api.method::<Vec<ConnectionId>>("sim_connections", "Returns the open connections", []);
    let role = api.required::<Role>("role");
    let database = api.optional::<String>("database");
    api.method::<()>(
        "sim_set_role",
        "Changes the server's role in a database's cluster",
        [role, database],
    );
    let database = api.optional::<String>("database");
    api.method::<()>(
        "sim_truncate_history",
        "Removes all transactions but the last from a database's history",
        [database],
    );
    api.method::<String>("sim_new_server_id", "Gives the server another id, and returns it", []);
}
