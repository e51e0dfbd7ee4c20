//! `patchbay show`: the switches and routers of a Northbound database, as `ovn-nbctl show` prints
//! them.

use std::collections::HashMap;

use clap::{ArgGroup, Args};
use patchbay_engine::db::Snapshot;
use patchbay_model::owner::Owner;
use patchbay_model::printable::printable;
use patchbay_nbctl_text::{Release, RenderError, show as show_all, show_named};

use super::console::Console;
use super::failure::Failure;
use super::one_database::OneDatabase;

/// Tables whose rows `ovn-nbctl show` names.
const NAMED_TABLES: [&str; 4] =
    ["Logical_Switch", "Logical_Router", "Logical_Switch_Port", "Logical_Router_Port"];
/// Maximum length of an object's name, in bytes.
const MAX_OWNER_BYTES: usize = 200;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("database").required(true).multiple(false))]
pub(super) struct Show {
    /// Name or UUID of a switch or router. Default: all.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print nothing that `ovn-nbctl show` does not print: no names of pods and networks.
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    database: OneDatabase,
}

/// Prints the switches and routers.
pub(super) async fn show(arguments: &Show, console: &mut Console<'_>) -> Result<(), Failure> {
    let (place, snapshot) = arguments.database.read(console).await?;
    let release = Release::of_schema(snapshot.schema());
    let text = match &arguments.name {
        Some(name) => show_named(&snapshot, name, release),
        None => show_all(&snapshot, release),
    };
    let shown = text.map_err(|error: RenderError| Failure::Print {
        zone: place.clone(),
        message: error.to_string(),
    })?;
    if let Some(name) = arguments.name.as_ref().filter(|_| shown.is_empty()) {
        return Err(Failure::Arguments(format!("{place} has no switch and no router {name}")));
    }
    let shown = if arguments.plain { shown } else { with_owners(&shown, &snapshot) };
    Ok(console.write_long(|output| output.write_all(shown.as_bytes()))?)
}

/// Adds the objects of switches, routers and ports behind their names.
fn with_owners(shown: &str, snapshot: &Snapshot) -> String {
    let owners: HashMap<String, Owner> = NAMED_TABLES
        .iter()
        .filter_map(|table| snapshot.schema().table_by_name(table))
        .flat_map(|(id, schema)| {
            snapshot.table(id).iter().filter_map(|row| {
                let name = row.get(schema.column_id("name")?).as_scalar()?.as_str()?.to_owned();
                let ids = row.get(schema.column_id("external_ids")?);
                let ids = ids.as_map()?;
                let owner = Owner::of(&name, |key| ids.get_str(key))?;
                (owner.name != name).then_some((name, owner))
            })
        })
        .collect();
    if owners.is_empty() {
        return shown.to_owned();
    }
    let mut text = String::with_capacity(shown.len() * 2);
    for line in shown.lines() {
        text.push_str(line);
        let name = name_of(line).and_then(|name| owners.get(name));
        if let Some(owner) = name {
            text.push_str("  # ");
            text.push_str(&printable(&owner.to_string(), MAX_OWNER_BYTES));
        }
        text.push('\n');
    }
    text
}

/// The name of a switch, router or port in its line.
fn name_of(line: &str) -> Option<&str> {
    if let Some(port) = line.strip_prefix("    port ") {
        return Some(port);
    }
    let rest = line.strip_prefix("switch ").or_else(|| line.strip_prefix("router "))?;
    // ovn-nbctl itself prints names of Neutron, as `(aka NAME)`.
    rest.split_once(" (")?.1.strip_suffix(')').filter(|name| !name.contains(") (aka "))
}
