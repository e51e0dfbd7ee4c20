//! Address sets of pools.

use std::sync::Arc;

use patchbay_model::vpc::WiredIpPool;
use patchbay_rows::PartRows;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::nb::AddressSet;

use super::ids;
use crate::capability::Vpcs;
use crate::part::Part;

/// Adds the address set of a pool.
pub(crate) fn put(
    of: &Vpcs,
    (part, name): (&Part, &Arc<str>),
    pool: &WiredIpPool,
    rows: &mut PartRows<()>,
) {
    let set = name.replace('-', ".");
    let row = AddressSet {
        name: set.clone(),
        external_ids: ids(part, [("ippool", name)]),
        ..AddressSet::default()
    };
    rows.put(of.tables.address_sets, &row);
    for net in pool.ranges.iter().flat_map(|range| range.to_cidrs()) {
        rows.member(of.tables.address_sets, set.clone(), Atom::from(&*net));
    }
}
