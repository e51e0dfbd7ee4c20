//! Port groups of security groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_model::vpc::{DENY_ALL_GROUP, WiredGroup, group_addresses, port_group};
use patchbay_rows::{PartRows, Reader};
use patchbay_schemas::nb::AddressSet;

use super::{acl, ids};
use crate::capability::Vpcs;
use crate::part::Part;
use crate::tables::GroupRow;

/// External id with the name of a security group.
const GROUP: &str = "sg";

/// Adds the rows of a security group.
pub(crate) fn put(
    of: &Vpcs,
    (part, name): (&Part, &Arc<str>),
    group: &WiredGroup,
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    let row = GroupRow {
        name: port_group(name).into(),
        external_ids: ids(part, [("type", "security_group"), (GROUP, name)]),
    };
    rows.put(of.tables.groups, &row);
    acl::put_of_group(of, (part, &port_group(name)), &group.acls, reader, rows);
    if &**name == DENY_ALL_GROUP {
        return;
    }
    for is_ipv6 in [false, true] {
        let row = AddressSet {
            name: group_addresses(name, is_ipv6),
            external_ids: ids(part, [(GROUP, name)]),
            ..AddressSet::default()
        };
        rows.put(of.tables.address_sets, &row);
    }
}

/// External ids of a port with these groups. Those that it had are `false`, as in Kube-OVN.
pub(super) fn put_ids(
    groups: &[Arc<str>],
    former: &BTreeMap<String, String>,
    external_ids: &mut BTreeMap<String, String>,
) {
    const ASSOCIATED: &str = "associated_sg_";
    for key in former.keys().filter(|key| key.starts_with(ASSOCIATED)) {
        external_ids.insert(key.clone(), "false".to_owned());
    }
    if groups.is_empty() {
        return;
    }
    external_ids.insert("security_groups".to_owned(), groups.join("/"));
    for group in groups {
        external_ids.insert(format!("{ASSOCIATED}{group}"), "true".to_owned());
    }
}
