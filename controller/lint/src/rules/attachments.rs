//! Rules N about attachment definitions.

use patchbay_model::vpc::{AttachmentProvider, KUBE_OVN_PLUGIN, KubeOvnConfig, SubnetProvider};

use crate::cluster::{Cluster, name_of, objects};
use crate::report::Report;

/// Subnet outside of a NAT gateway that names none.
const DEFAULT_OUTSIDE: &str = "ovn-vpc-external-network";
/// Namespace of Kube-OVN's controller.
const CONTROLLER_NAMESPACE: &str = "kube-system";

pub(super) fn unmatched_provider(cluster: &Cluster<'_>, report: &mut Report) {
    for subnet in &cluster.subnets {
        let SubnetProvider::Attachment(provider) = &subnet.provider else {
            continue;
        };
        if cluster.attachment(provider).is_none() {
            let message = format!(
                "Subnet {} expects provider {provider}; no NetworkAttachmentDefinition has it.",
                subnet.name
            );
            let repair = format!(
                "Create NetworkAttachmentDefinition {} in namespace {}, or correct the provider.",
                provider.name, provider.namespace
            );
            let draft = report.about(subnet.sourced).field("spec.provider");
            draft.found(message, repair);
        }
    }
    for attachment in &cluster.attachments {
        let provider = attachment.provider().to_string();
        // A name with a dot is rule N4.
        if attachment.interface_config().is_some()
            && !attachment.name.contains('.')
            && cluster.with_provider(&provider).next().is_none()
        {
            let message = format!(
                "NetworkAttachmentDefinition {}/{} expects provider {provider}; no Subnet has it.",
                attachment.namespace, attachment.name
            );
            let draft = report.about(attachment.sourced).field("spec.config");
            draft.found(message, format!("Set provider: {provider} in the subnet."));
        }
    }
}

pub(super) fn wrong_provider(cluster: &Cluster<'_>, report: &mut Report) {
    for attachment in &cluster.attachments {
        let Some(config) = attachment.interface_config() else {
            continue;
        };
        let wanted = attachment.provider().to_string();
        if config.provider.as_deref() != Some(&*wanted) {
            let found = match &config.provider {
                Some(found) => format!("is {found}"),
                None => "is missing".to_owned(),
            };
            let message = format!(
                "NetworkAttachmentDefinition {}/{}: provider {found}, must be {wanted}; the CNI plugin would \
                 wait for annotations that no program writes.",
                attachment.namespace, attachment.name
            );
            let draft = report.about(attachment.sourced).field("spec.config");
            draft.found(message, format!("Set \"provider\": \"{wanted}\"."));
        }
    }
}

pub(super) fn shared_provider(cluster: &Cluster<'_>, report: &mut Report) {
    for (provider, indexes) in &cluster.by_provider {
        let mut subnets: Vec<_> = indexes.iter().map(|index| &cluster.subnets[*index]).collect();
        subnets.sort_by_key(|subnet| subnet.sourced.position);
        if let [first, others @ ..] = &*subnets {
            for subnet in others {
                let message = format!(
                    "Provider {provider} is claimed by {} and {}; which of them a pod gets is chance.",
                    first.name, subnet.name
                );
                let draft =
                    report.about(subnet.sourced).other(first.sourced).field("spec.provider");
                draft.found(message, "Give each subnet its own NetworkAttachmentDefinition.");
            }
        }
    }
}

pub(super) fn unreadable_provider(cluster: &Cluster<'_>, report: &mut Report) {
    let effect =
        "is not read as an OVN provider; the subnet turns Ready with no network behind it.";
    for attachment in &cluster.attachments {
        if attachment.interface_config().is_some() && attachment.name.contains('.') {
            let message = format!("{} {effect}", attachment.provider());
            let draft = report.about(attachment.sourced).field("metadata.name");
            draft.found(message, "Use a name without dots.");
        }
    }
    for subnet in &cluster.subnets {
        let provider = &subnet.spec.provider;
        let fields = provider.split('.').count();
        // Two fields are addresses for interfaces of another plugin.
        if subnet.provider == SubnetProvider::Foreign && fields >= 3 {
            let message = format!("{provider} {effect}");
            let draft = report.about(subnet.sourced).field("spec.provider");
            draft.found(message, "Use <definition>.<namespace>.ovn.");
        }
    }
}

pub(super) fn unusable_config(cluster: &Cluster<'_>, report: &mut Report) {
    for attachment in &cluster.attachments {
        let config = attachment.sourced.object.spec.config.as_deref();
        let text = config.unwrap_or_default().trim();
        let provider = attachment.provider().to_string();
        // Without a configuration, only a subnet shows that the definition is Kube-OVN's.
        let is_wanted = || cluster.with_provider(&provider).next().is_some();
        let reason = match KubeOvnConfig::from_json(text) {
            _ if text.is_empty() && is_wanted() => "the config is empty".to_owned(),
            Err(error) if text.contains(KUBE_OVN_PLUGIN) || !text.is_empty() && is_wanted() => {
                format!("the config is not readable: {error}")
            }
            Ok(Some(config)) if config.server_socket.is_none() => {
                "the config has no server_socket".to_owned()
            }
            _ => continue,
        };
        let message = format!(
            "NetworkAttachmentDefinition {}/{}: {reason}.",
            attachment.namespace, attachment.name
        );
        let draft = report.about(attachment.sourced).field("spec.config");
        draft.found(
            message,
            "Write one JSON object with type: kube-ovn, server_socket and provider.",
        );
    }
}

pub(super) fn foreign_definition(cluster: &Cluster<'_>, report: &mut Report) {
    for attachment in &cluster.attachments {
        let provider = attachment.provider().to_string();
        for subnet in cluster.with_provider(&provider) {
            let Some(vpc) = cluster.vpc(subnet.vpc).filter(|vpc| !vpc.is_default) else {
                continue;
            };
            let namespace = attachment.namespace;
            if vpc.spec.namespaces.iter().any(|one| one == namespace) {
                continue;
            }
            let message = format!(
                "NetworkAttachmentDefinition {namespace}/{} feeds subnet {} of Vpc {}, which does not own \
                 namespace {namespace}.",
                attachment.name, subnet.name, vpc.name
            );
            let draft = report
                .about(attachment.sourced)
                .other(subnet.sourced)
                .other(vpc.sourced)
                .field("metadata.namespace");
            draft.found(message, "Move the definition to a namespace of the VPC.");
        }
    }
}

pub(super) fn unreachable_subnet(cluster: &Cluster<'_>, report: &mut Report) {
    if cluster.flags.is_secondary != Some(true) {
        return;
    }
    for vpc in cluster.custom_vpcs() {
        for subnet in cluster.overlays_of(vpc) {
            if subnet.provider == SubnetProvider::Default {
                let message = format!(
                    "No pod can be attached to {}: Kube-OVN runs in non-primary mode.",
                    subnet.name
                );
                let draft = report.about(subnet.sourced).field("spec.provider");
                draft.found(message, "Create a NetworkAttachmentDefinition, and set its provider.");
            }
        }
    }
}

pub(super) fn missing_outside(cluster: &Cluster<'_>, report: &mut Report) {
    for gateway in objects(&cluster.inventory.vpc_nat_gateways) {
        let listed = gateway.object.spec.external_subnets.first();
        let name = listed.map_or(DEFAULT_OUTSIDE, |name| name);
        let Some(subnet) = cluster.subnet(name) else {
            continue;
        };
        let provider = subnet.spec.provider.trim_end_matches(".ovn");
        let fields: Vec<&str> = provider.split('.').collect();
        let (namespace, definition) = match *fields {
            [definition, namespace] => (namespace, definition),
            _ => (CONTROLLER_NAMESPACE, name),
        };
        let wanted = AttachmentProvider::new(namespace, definition);
        if cluster.attachment(&wanted).is_none() {
            let message = format!(
                "VpcNatGateway {}: Kube-OVN will look for NetworkAttachmentDefinition {namespace}/{definition}, \
                 which does not exist; the gateway's outside is never attached.",
                name_of(gateway)
            );
            let draft = report.about(gateway).other(subnet.sourced).field("spec.externalSubnets");
            draft.found(
                message,
                format!("Create it, or set provider: <definition>.<namespace> in Subnet {name}."),
            );
        }
    }
}
