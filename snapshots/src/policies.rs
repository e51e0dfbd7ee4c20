//! `ovn-nbctl lr-policy-list`.

use std::cmp::Reverse;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::hash_order;
use patchbay_schemas::nb::LogicalRouterPolicy;

use crate::find::{RenderError, router};
use crate::output::Output;
use crate::prefix::normalised;

/// The policies of a router, the highest priority first.
pub fn lr_policy_list(snapshot: &Snapshot, router_id: &str) -> Result<String, RenderError> {
    let router = router(snapshot, router_id)?;
    let table = snapshot.typed::<LogicalRouterPolicy>();
    let mut policies = Vec::new();
    for row in &router.policies {
        policies.extend(table.get(row.uuid)?);
    }
    policies
        .sort_by(|a, b| (Reverse(a.priority), &a.r#match).cmp(&(Reverse(b.priority), &b.r#match)));
    let mut output = Output::default();
    if !policies.is_empty() {
        output.line(format_args!("Routing Policies"));
    }
    for policy in &policies {
        print(policy, &mut output);
    }
    Ok(output.finish())
}

fn print(policy: &LogicalRouterPolicy, output: &mut Output) {
    output.right(10, &policy.priority.to_string());
    output.put(format_args!(" "));
    output.right(50, &policy.r#match);
    output.put(format_args!(" "));
    output.right(15, policy.action.as_str());
    for (place, nexthop) in policy.nexthops.iter().enumerate() {
        if place == 0 {
            output.put(format_args!(" "));
            output.right(25, &normalised(nexthop));
        } else {
            output.put(format_args!(", {}", normalised(nexthop)));
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
