//! ACLs.

use std::collections::BTreeMap;

use patchbay_model::vpc::{AclFlow, AclReason, AclVerdict, GroupAcl, SubnetAcl, WiredSubnet};
use patchbay_rows::{PartRows, Reader};
use patchbay_schemas::nb::{AclAction, AclDirection, AclSeverity};

use super::ids;
use crate::capability::Vpcs;
use crate::part::Part;
use crate::tables::{ALLOWED, AclRow};

/// Tier of the ACLs of subnets.
const SUBNET_TIER: i64 = 2;
/// Limit of the length of an ACL's name.
const MAX_NAME_BYTES: usize = 63;

/// Adds the ACLs of a subnet's switch.
pub(super) fn put_of_subnet(
    of: &Vpcs,
    (part, name): (&Part, &str),
    subnet: &WiredSubnet,
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    for acl in &subnet.acls {
        let external_ids = match acl.reason {
            AclReason::Private => ids(part, [("parent", name)]),
            AclReason::Listed => ids(part, [("parent", name), ("subnet", name)]),
        };
        let row = row(acl, SUBNET_TIER, external_ids);
        let is_logged = acl.reason == AclReason::Private && acl.verdict == AclVerdict::Drop;
        let row = if is_logged {
            AclRow {
                name: Some(short_name(name)),
                log: true,
                severity: Some(AclSeverity::Warning),
                ..row
            }
        } else {
            row
        };
        let row = without_tier(of, row, reader);
        let mut added = rows.put(of.tables.acls, &row);
        if acl.verdict.is_allowing() {
            added.phases(ALLOWED);
        }
        added.held_by(of.tables.acls_of_switch, name);
    }
}

/// Adds the ACLs of a port group. Without tiers in the schema, the second of two that differ in their
/// tiers only is left out, and so is `pass`.
pub(super) fn put_of_group(
    of: &Vpcs,
    (part, group): (&Part, &str),
    acls: &[GroupAcl],
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    let has_tiers = reader.has_column(of.tables.acls, "tier");
    let mut last: Option<&SubnetAcl> = None;
    for GroupAcl { tier, acl } in acls {
        if !has_tiers {
            if acl.verdict == AclVerdict::Pass || last == Some(acl) {
                continue;
            }
            last = Some(acl);
        }
        let row = without_tier(of, row(acl, *tier, ids(part, [("parent", group)])), reader);
        let mut added = rows.put(of.tables.acls, &row);
        if acl.verdict.is_allowing() {
            added.phases(ALLOWED);
        }
        added.held_by(of.tables.acls_of_group, group);
    }
}

fn row(acl: &SubnetAcl, tier: i64, external_ids: BTreeMap<String, String>) -> AclRow {
    AclRow {
        direction: match acl.flow {
            AclFlow::FromPort => AclDirection::FromLport,
            AclFlow::ToPort => AclDirection::ToLport,
        },
        priority: acl.priority,
        r#match: acl.expression.clone(),
        action: match acl.verdict {
            AclVerdict::Allow => AclAction::Allow,
            AclVerdict::AllowRelated => AclAction::AllowRelated,
            AclVerdict::AllowStateless => AclAction::AllowStateless,
            AclVerdict::Drop => AclAction::Drop,
            AclVerdict::Reject => AclAction::Reject,
            AclVerdict::Pass => AclAction::Pass,
        },
        tier,
        name: None,
        log: false,
        severity: None,
        external_ids,
    }
}

/// A row without what the schema lacks: tiers are newer than OVN 23.03.
fn without_tier(of: &Vpcs, row: AclRow, reader: &Reader<'_, Vpcs>) -> AclRow {
    if reader.has_column(of.tables.acls, "tier") { row } else { AclRow { tier: 0, ..row } }
}

/// Beginning of a name that is an ACL's name.
fn short_name(name: &str) -> String {
    let mut end = name.len().min(MAX_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}
