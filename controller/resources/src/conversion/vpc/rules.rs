//! Rules about external addresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_model::FieldProblem;
use patchbay_model::Protocol;
use patchbay_model::vpc::{ForwardedPort, NatKey, NatKind, NatRule, NatTarget};

use crate::manifests::Inventory;
use crate::object::kube_ovn::{OvnDnatRuleSpec, OvnFipSpec, OvnSnatRuleSpec};

/// Result of reading the rules, by kind and name.
type ReadRules = BTreeMap<NatKey, Result<NatRule, FieldProblem>>;

/// Rules of all kinds.
pub(super) fn nat_rules(inventory: &Inventory) -> ReadRules {
    let key = |kind, name: &str| NatKey { kind, name: name.into() };
    let snat = inventory.ovn_snat_rules.iter().map(|(of, object)| {
        let key = key(NatKind::Snat, &of.name);
        let spec = &object.object.spec;
        let target = snat_target(spec);
        let rule = rule(&key, &spec.ovn_eip, target, object.position);
        (key, rule)
    });
    let fip = inventory.ovn_fips.iter().map(|(of, object)| {
        let key = key(NatKind::Fip, &of.name);
        let spec = &object.object.spec;
        let rule = rule(&key, &spec.ovn_eip, machine(&fip_fields(spec)), object.position);
        let rule = rule.and_then(|rule| {
            let is_distributed = is_distributed(&spec.type_)?;
            if is_distributed && matches!(rule.target, NatTarget::VirtualIp(_)) {
                let reason = "excludes a Vip, which is on no certain node";
                return Err(FieldProblem::of_text("spec.type", &spec.type_, reason));
            }
            Ok(NatRule { is_distributed, ..rule })
        });
        (key, rule)
    });
    let dnat = inventory.ovn_dnat_rules.iter().map(|(of, object)| {
        let key = key(NatKind::Dnat, &of.name);
        let spec = &object.object.spec;
        let rule = rule(&key, &spec.ovn_eip, machine(&dnat_fields(spec)), object.position);
        let rule = rule.and_then(|rule| Ok(NatRule { port: Some(forwarded_port(spec)?), ..rule }));
        (key, rule)
    });
    snat.chain(fip).chain(dnat).collect()
}

fn rule(
    key: &NatKey,
    eip: &str,
    target: Result<NatTarget, FieldProblem>,
    position: u64,
) -> Result<NatRule, FieldProblem> {
    if eip.is_empty() {
        let reason = "the name of an OvnEip is required";
        return Err(FieldProblem::new("spec.ovnEip", reason));
    }
    Ok(NatRule {
        key: key.clone(),
        eip: eip.into(),
        target: target?,
        port: None,
        is_distributed: false,
        position,
    })
}

fn text(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn snat_target(spec: &OvnSnatRuleSpec) -> Result<NatTarget, FieldProblem> {
    let (v4, v6) = (text(&spec.v4_ip_cidr), text(&spec.v6_ip_cidr));
    let has_range = v4.is_some() || v6.is_some();
    if has_range && spec.vpc.is_empty() {
        let reason = "the Vpc of v4IpCidr and v6IpCidr is required";
        return Err(FieldProblem::new("spec.vpc", reason));
    }
    if has_range {
        let vpc = Arc::from(&*spec.vpc);
        return Ok(NatTarget::Addresses { vpc, v4, v6 });
    }
    match (&*spec.vpc_subnet, &*spec.ip_name) {
        ("", "") => {
            let reason = "one of vpcSubnet, ipName, and vpc with v4IpCidr or v6IpCidr is required";
            Err(FieldProblem::new("spec", reason))
        }
        ("", port) => Ok(NatTarget::Port(port.into())),
        (subnet, "") => Ok(NatTarget::Subnet(subnet.into())),
        _ => {
            let reason = "excludes vpcSubnet";
            Err(FieldProblem::new("spec.ipName", reason))
        }
    }
}

/// Fields of a rule about one machine: type and name of the object, VPC and addresses.
struct MachineFields<'a> {
    ip_type: &'a str,
    ip_name: &'a str,
    vpc: &'a str,
    v4: &'a str,
    v6: &'a str,
}

fn fip_fields(spec: &OvnFipSpec) -> MachineFields<'_> {
    MachineFields {
        ip_type: &spec.ip_type,
        ip_name: &spec.ip_name,
        vpc: &spec.vpc,
        v4: &spec.v4_ip,
        v6: &spec.v6_ip,
    }
}

fn dnat_fields(spec: &OvnDnatRuleSpec) -> MachineFields<'_> {
    MachineFields {
        ip_type: &spec.ip_type,
        ip_name: &spec.ip_name,
        vpc: &spec.vpc,
        v4: &spec.v4_ip,
        v6: &spec.v6_ip,
    }
}

fn machine(fields: &MachineFields<'_>) -> Result<NatTarget, FieldProblem> {
    if !fields.ip_name.is_empty() {
        let name = fields.ip_name.into();
        return Ok(match fields.ip_type {
            "vip" => NatTarget::VirtualIp(name),
            _ => NatTarget::Port(name),
        });
    }
    let (v4, v6) = (text(fields.v4), text(fields.v6));
    if v4.is_none() && v6.is_none() {
        let reason = "one of ipName, and vpc with v4Ip or v6Ip is required";
        return Err(FieldProblem::new("spec", reason));
    }
    if fields.vpc.is_empty() {
        let reason = "the Vpc of v4Ip and v6Ip is required";
        return Err(FieldProblem::new("spec.vpc", reason));
    }
    let vpc = fields.vpc.into();
    Ok(NatTarget::Addresses { vpc, v4, v6 })
}

fn is_distributed(text: &str) -> Result<bool, FieldProblem> {
    match text {
        "" | "centralized" => Ok(false),
        "distributed" => Ok(true),
        _ => {
            let reason = "is neither distributed nor centralized";
            Err(FieldProblem::of_text("spec.type", text, reason))
        }
    }
}

fn forwarded_port(spec: &OvnDnatRuleSpec) -> Result<ForwardedPort, FieldProblem> {
    let number = |field: &str, text: &str| {
        let number = text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        let reason = "is not in 1..=65535";
        number.ok_or_else(|| FieldProblem::of_text(field, text, reason))
    };
    let protocol = match spec.protocol.trim().to_ascii_lowercase().as_str() {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => {
            let reason = "is neither tcp nor udp";
            return Err(FieldProblem::of_text("spec.protocol", &spec.protocol, reason));
        }
    };
    Ok(ForwardedPort {
        protocol,
        external: number("spec.externalPort", &spec.external_port)?,
        internal: number("spec.internalPort", &spec.internal_port)?,
    })
}
