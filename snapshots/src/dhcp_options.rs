//! Text of `ovn-nbctl dhcp-options-list`.

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::DhcpOptions;

use crate::lookup::{RenderError, rows_in_hash_order};
use crate::output::{Output, sorted_pairs};

/// Renders the UUIDs of all DHCP options, sorted by their subnets. All releases print the same.
///
/// # Errors
/// A row holds a value that OVN does not define.
pub fn dhcp_options_list(snapshot: &Snapshot) -> Result<String, RenderError> {
    let rows = rows_in_hash_order::<DhcpOptions>(snapshot)?.into_iter();
    let pairs = rows.map(|(uuid, row)| (row.cidr, uuid)).collect();
    let mut output = Output::default();
    for (_, uuid) in sorted_pairs(pairs) {
        output.line(format_args!("{uuid}"));
    }
    Ok(output.finish())
}
