//! Text of `ovn-nbctl acl-list`.

use std::cmp::Reverse;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{Acl, AclDirection, LogicalSwitch, NetworkFunctionGroup, PortGroup};

use crate::lookup::{RenderError, find};
use crate::output::Output;
use crate::release::Release;

/// Renders the ACLs of a switch or port group, sorted by direction, stage (ACLs after load
/// balancers last), descending priority, descending tier (since 25.09) and match.
///
/// `id` is a name or UUID.
///
/// # Errors
/// Neither or both have the name, or a row holds a value that OVN does not define.
pub fn acl_list(snapshot: &Snapshot, id: &str, release: Release) -> Result<String, RenderError> {
    let group = find::<PortGroup>(snapshot, id)?;
    let switch = find::<LogicalSwitch>(snapshot, id)?;
    let acls = match (group, switch) {
        (Some((_, group)), None) => group.acls,
        (None, Some((_, switch))) => switch.acls,
        (Some(_), Some(_)) => return Err(RenderError::SameName { id: id.to_owned() }),
        (None, None) => return Err(RenderError::NoSuchAclHolder { id: id.to_owned() }),
    };
    let table = snapshot.typed::<Acl>();
    let groups = snapshot.typed::<NetworkFunctionGroup>();
    let mut found = Vec::new();
    for row in &acls {
        let Some(acl) = table.get(row.uuid)? else {
            continue;
        };
        let group = match &acl.network_function_group {
            Some(group) if release == Release::V26_03 => groups.get(group.uuid)?,
            _ => None,
        };
        found.push((acl, group.map(|group| group.name)));
    }
    let key = |acl: &Acl| {
        let is_ingress = acl.direction == AclDirection::ToLport;
        let tier = if release == Release::V26_03 { acl.tier } else { 0 };
        let numbers = Reverse((acl.priority, tier));
        (is_ingress, is_after_lb(acl), numbers)
    };
    found.sort_by(|(a, _), (b, _)| (key(a), &a.r#match).cmp(&(key(b), &b.r#match)));
    let mut output = Output::default();
    for (acl, group) in &found {
        print_acl(acl, group.as_deref(), &mut output);
    }
    Ok(output.finish())
}

/// Prints an ACL. `group`: name of its network function group.
fn print_acl(acl: &Acl, group: Option<&str>, output: &mut Output) {
    output.put_right(10, acl.direction.as_str());
    output.put(format_args!(" "));
    output.put_right(5, &acl.priority.to_string());
    output.put(format_args!(" ({}) {}", acl.r#match, acl.action.as_str()));
    if let Some(group) = group {
        output.put(format_args!(" network-function-group={group}"));
    }
    if acl.log {
        let name = acl.name.as_ref().map(|name| format!("name={name}"));
        let severity = acl.severity.map(|of| format!("severity={}", of.as_str()));
        let meter = acl.meter.as_ref().map(|meter| format!("meter=\"{meter}\""));
        let fields: Vec<String> = [name, severity, meter].into_iter().flatten().collect();
        output.put(format_args!(" log({})", fields.join(",")));
    }
    if acl.label != 0 {
        output.put(format_args!(" label={}", acl.label));
    }
    if is_after_lb(acl) {
        output.put(format_args!(" [after-lb]"));
    }
    output.line(format_args!(""));
}

/// Returns `true` if the ACL comes after load balancers.
fn is_after_lb(acl: &Acl) -> bool {
    let value = acl.options.get("apply-after-lb");
    value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}
