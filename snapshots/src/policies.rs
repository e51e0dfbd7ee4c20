//! Text of `ovn-nbctl lr-policy-list`.

use std::cmp::Reverse;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::hash_order;
use patchbay_schemas::nb::LogicalRouterPolicy;

use crate::lookup::{RenderError, find_router};
use crate::output::Output;
use crate::prefix::normalize_prefix;
use crate::release::Release;

/// Renders the routing policies of a router, sorted by descending priority and by match; since 25.03
/// first by chain.
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
        policies.sort_by(|a, b| a.chain.cmp(&b.chain));
    }
    let mut output = Output::default();
    if !policies.is_empty() {
        output.line(format_args!("Routing Policies"));
    }
    let has_chains = policies.iter().any(|policy| policy.chain.is_some());
    let is_new = |a: &LogicalRouterPolicy, b: &LogicalRouterPolicy| a.chain != b.chain;
    for (place, policy) in policies.iter().enumerate() {
        let is_first = place == 0 || is_new(&policies[place - 1], policy);
        if release == Release::V26_03 && has_chains && is_first {
            let name = policy.chain.as_deref().unwrap_or("<Default>");
            let space = if policy.chain.is_some() { "\n" } else { "" };
            output.line(format_args!("{space}Chain {name}:"));
        }
        print_policy(policy, &mut output);
    }
    Ok(output.finish())
}

fn print_policy(policy: &LogicalRouterPolicy, output: &mut Output) {
    output.put_right(10, &policy.priority.to_string());
    output.put(format_args!(" "));
    output.put_right(50, &policy.r#match);
    output.put(format_args!(" "));
    output.put_right(15, policy.action.as_str());
    if let Some(chain) = &policy.jump_chain {
        output.put(format_args!(" -> {chain}"));
    }
    for (place, nexthop) in policy.nexthops.iter().enumerate() {
        if place == 0 {
            output.put(format_args!(" "));
            output.put_right(25, &normalize_prefix(nexthop));
        } else {
            output.put(format_args!(", {}", normalize_prefix(nexthop)));
        }
    }
    if !policy.options.is_empty() {
        let keys = hash_order::key_order(policy.options.keys().map(String::as_str));
        let options: Vec<_> = keys
            .iter()
            .map(|key| format!("{key}={}", policy.options[*key]))
            .collect();
        output.put(format_args!("{:15}{}", "", options.join(",")));
    }
    output.line(format_args!(""));
}
