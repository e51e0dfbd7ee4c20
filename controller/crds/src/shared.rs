//! Parts that several definitions have.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSON;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::json;

use super::schema_ext::SchemaExt;

/// CEL of a transition: the value has not changed.
pub(super) const UNCHANGED: &str = "self == oldSelf";

/// Adds the limits of Kubernetes to the conditions of a status.
pub(super) fn conditions(list: &mut JSONSchemaProps) {
    list.keyed_by("type");
    let condition = list.item();
    let type_ = condition.property("type");
    type_.max_length = Some(316);
    type_.pattern = Some(
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
            .to_owned(),
    );
    condition.property("status").enum_ =
        Some(["True", "False", "Unknown"].map(|status| JSON(json!(status))).into());
    let reason = condition.property("reason");
    (reason.min_length, reason.max_length) = (Some(1), Some(1024));
    reason.pattern = Some("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$".to_owned());
    condition.property("message").max_length = Some(32768);
    condition.property("observedGeneration").minimum = Some(0.0);
}

/// Adds the list types of a label selector.
pub(super) fn label_selector(selector: &mut JSONSchemaProps) {
    selector.x_kubernetes_map_type = Some("atomic".to_owned());
    let expressions = selector.property("matchExpressions").atomic();
    expressions.item().property("values").atomic();
}

/// Adds the rule of a CIDR, with or without host bits.
pub(super) fn cidr(text: &mut JSONSchemaProps) {
    text.rule("isCIDR(self)", "CIDR is invalid");
}

/// Adds the rules of a list of CIDRs.
pub(super) fn cidrs(list: &mut JSONSchemaProps) {
    cidr(list.atomic().item());
}

/// Adds the rules of one CIDR, or one of each IP family.
pub(super) fn dual_stack_cidrs(list: &mut JSONSchemaProps) {
    cidrs(list);
    list.rule(
        "size(self) != 2 || !isCIDR(self[0]) || !isCIDR(self[1]) \
         || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",
        "When 2 CIDRs are set, they must be from different IP families",
    );
}

/// Adds the rules of one address, or one of each IP family.
pub(super) fn dual_stack_ips(list: &mut JSONSchemaProps) {
    list.atomic().rule(
        "size(self) != 2 || !isIP(self[0]) || !isIP(self[1]) || ip(self[0]).family() != ip(self[1]).family()",
        "When 2 IPs are set, they must be from different IP families",
    );
    list.item().rule("isIP(self)", "IP is invalid");
}

/// Adds the rules of a network's address management.
pub(super) fn ipam(ipam: &mut JSONSchemaProps) {
    ipam.rule_at(
        "lifecycle",
        "!has(self.lifecycle) || self.lifecycle != 'Persistent' || !has(self.mode) || self.mode == 'Enabled'",
        "lifecycle Persistent is only supported when ipam.mode is Enabled",
    );
}

/// CEL of a network's configuration: its address management is disabled.
pub(super) const IPAM_DISABLED: &str =
    "(has(self.ipam) && has(self.ipam.mode) && self.ipam.mode == 'Disabled')";
