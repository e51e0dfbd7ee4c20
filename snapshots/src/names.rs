//! Texts of `ovn-nbctl lr-list` and `ls-list`. All releases print the same.

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{LogicalRouter, LogicalSwitch};
use uuid::Uuid;

use crate::lookup::{RenderError, rows_in_hash_order};
use crate::output::{Output, sorted_pairs};

/// Renders UUID and name of all routers, by name.
///
/// # Errors
/// A row holds a value that OVN does not define.
pub fn lr_list(snapshot: &Snapshot) -> Result<String, RenderError> {
    let rows = rows_in_hash_order::<LogicalRouter>(snapshot)?.into_iter();
    Ok(print(rows.map(|(uuid, row)| (row.name, uuid)).collect()))
}

/// Renders UUID and name of all switches, by name.
///
/// # Errors
/// A row holds a value that OVN does not define.
pub fn ls_list(snapshot: &Snapshot) -> Result<String, RenderError> {
    let rows = rows_in_hash_order::<LogicalSwitch>(snapshot)?.into_iter();
    Ok(print(rows.map(|(uuid, row)| (row.name, uuid)).collect()))
}

fn print(names: Vec<(String, Uuid)>) -> String {
    let mut output = Output::default();
    for (name, uuid) in sorted_pairs(names) {
        output.line(format_args!("{uuid} ({name})"));
    }
    output.finish()
}
