//! Features of an OVN that its Northbound schema shows.

use patchbay_schemas::atom::Atom;
use patchbay_schemas::nb::Acl;
use patchbay_schemas::schema::{Constraint, DatabaseSchema};
use patchbay_schemas::typed::TableRow;

/// Version (major, minor) of the first Northbound schema of an OVN with remote router ports
/// (25.03). The ports changed nothing in the schema, so nothing else shows them.
const REMOTE_ROUTER_PORTS: (u32, u32) = (7, 11);

/// Version of the schema if OVN has no remote router ports with it. `None`: OVN has them.
pub fn version_without_remote_ports(schema: &DatabaseSchema) -> Option<&str> {
    let version = &schema.version;
    let mut numbers = version.split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return None;
    };
    ((major, minor) < REMOTE_ROUTER_PORTS).then_some(version)
}

/// `true` if the schema allows the ACL action `pass`.
pub fn has_pass_action(schema: &DatabaseSchema) -> bool {
    let Some((_, table)) = schema.table_by_name(Acl::TABLE) else {
        return false;
    };
    let action = table.column_id("action").map(|id| table.column_type(id));
    action.is_some_and(|action| match &action.key.constraint {
        Constraint::Enum(allowed) => allowed.contains(&Atom::from("pass")),
        _ => true,
    })
}
