//! Text of `ovn-nbctl lr-policy-list`.

use std::cmp::Reverse;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::hash_order;
use patchbay_schemas::nb::{LogicalRouterPolicy, LogicalRouterPolicyAction, LogicalRouterPort};

use crate::lookup::{RenderError, find_router};
use crate::output::Output;
use crate::prefix::normalize_prefix;
use crate::release::Release;

/// Renders the routing policies of a router, sorted by descending priority and by match; since
/// 25.03 first by chain.
///
/// `router_id` is a name or UUID.
///
/// # Errors
/// No router or several routers have the name, or a row holds a value that OVN does not define.
pub fn lr_policy_list(
    snapshot: &Snapshot,
    router_id: &str,
    release: Release,
) -> Result<String, RenderError> {
    let router = find_router(snapshot, router_id)?;
    let table = snapshot.typed::<LogicalRouterPolicy>();
    let mut policies = Vec::new();
    for row in &router.policies {
        policies.extend(table.get(row.uuid)?);
    }
    policies
        .sort_by(|a, b| (Reverse(a.priority), &a.r#match).cmp(&(Reverse(b.priority), &b.r#match)));
    if release == Release::V26_03 {
        policies.sort_by(|a, b| chain(a).cmp(chain(b)));
    }
    let ports = snapshot.typed::<LogicalRouterPort>();
    let mut output = Output::default();
    if !policies.is_empty() {
        output.line(format_args!("Routing Policies"));
    }
    let has_chains = policies.iter().any(|policy| !chain(policy).is_empty());
    let is_new = |a: &LogicalRouterPolicy, b: &LogicalRouterPolicy| chain(a) != chain(b);
    for (place, policy) in policies.iter().enumerate() {
        let is_first = place == 0 || is_new(&policies[place - 1], policy);
        if release == Release::V26_03 && has_chains && is_first {
            match chain(policy) {
                "" => output.line(format_args!("Chain <Default>:")),
                name => output.line(format_args!("\nChain {name}:")),
            }
        }
        let port = match &policy.output_port {
            Some(port) => ports.get(port.uuid)?.map(|port| port.name),
            None => None,
        };
        print_policy(policy, release, port.as_deref(), &mut output);
    }
    Ok(output.finish())
}

/// Name of the chain of a policy. Empty: the default one.
fn chain(policy: &LogicalRouterPolicy) -> &str {
    policy.chain.as_deref().unwrap_or_default()
}

/// Prints a policy. `port`: name of its output port.
fn print_policy(
    policy: &LogicalRouterPolicy,
    release: Release,
    port: Option<&str>,
    output: &mut Output,
) {
    let is_new = release == Release::V26_03;
    output.put_right(10, &policy.priority.to_string());
    output.put(format_args!(" "));
    output.put_right(50, &policy.r#match);
    output.put(format_args!(" "));
    output.put_right(15, policy.action.as_str());
    let is_jump = is_new && policy.action == LogicalRouterPolicyAction::Jump;
    let target = policy.jump_chain.as_deref().filter(|_| is_jump);
    if let Some(target) = target.filter(|target| !target.is_empty()) {
        output.put(format_args!(" -> {target}"));
    }
    for (place, nexthop) in policy.nexthops.iter().enumerate() {
        if place == 0 {
            output.put(format_args!(" "));
            output.put_right(25, &normalize_prefix(nexthop));
        } else {
            output.put(format_args!(", {}", normalize_prefix(nexthop)));
        }
    }
    if let Some(port) = port.filter(|_| is_new) {
        output.put(format_args!(" {port}"));
    }
    let has_bfd = is_new && !policy.bfd_sessions.is_empty();
    let bfd = has_bfd.then(|| "bfd".to_owned());
    let keys = hash_order::key_order(policy.options.keys().map(String::as_str));
    let options = keys.iter().map(|key| format!("{key}={}", policy.options[*key]));
    let options: Vec<_> = bfd.into_iter().chain(options).collect();
    if !options.is_empty() {
        output.put(format_args!("{:15}{}", "", options.join(",")));
    }
    output.line(format_args!(""));
}
