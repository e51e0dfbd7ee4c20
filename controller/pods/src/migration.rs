//! Live migration of virtual machines: which of a machine's ports carries traffic.
//!
//! ```text
//! target   created   disabled, without addresses
//!          ready     enabled; the source is disabled, without addresses
//!          failed    gone; the source is enabled
//! ```
//!
//! A further pod has no port until the first or the second one ends.

use std::sync::Arc;

use patchbay_model::Pod;

/// State of a port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct PortState {
    /// Column `enabled`. `None`: never set, which OVN takes for `true`.
    pub(super) enabled: Option<bool>,
    /// `true` if the port has its addresses.
    pub(super) has_addresses: bool,
}

impl PortState {
    /// State of a port that is not part of a migration.
    pub(super) const USUAL: Self = Self { enabled: None, has_addresses: true };
    /// State of a new port that waits for port groups.
    pub(super) const WAITING: Self = Self { enabled: Some(false), has_addresses: true };
    const DISABLED: Self = Self { enabled: Some(false), has_addresses: false };
    const ENABLED: Self = Self { enabled: Some(true), has_addresses: true };

    /// State of the port of a pod, of which `machine` has all pods of its virtual machine.
    /// `was_set` is `true` if the port's column `enabled` is set, by an earlier migration or an
    /// earlier step of this one. `None`: the pod has no port, because two older ones are alive.
    pub(super) fn of<'a>(
        pod: &Pod,
        machine: impl Iterator<Item = &'a Arc<Pod>>,
        was_set: bool,
    ) -> Option<Self> {
        let mut pods: Vec<&Pod> = machine.map(|pod| &**pod).collect();
        pods.sort_by_key(|pod| (pod.created, &pod.key));
        let unchanged = if was_set { Self::ENABLED } else { Self::USUAL };
        let living: Vec<&Pod> = pods.iter().copied().filter(|pod| pod.is_wired()).collect();
        if let [source, target, ..] = living[..] {
            let is_ready = target.machine.as_ref().is_some_and(|one| one.is_target_ready);
            return if target.key == pod.key {
                Some(if is_ready { Self::ENABLED } else { Self::DISABLED })
            } else if source.key == pod.key {
                Some(if is_ready { Self::DISABLED } else { unchanged })
            } else {
                None
            };
        }
        let newest = pods.last().map(|pod| &pod.key);
        let has_failed = newest.is_some_and(|newest| *newest != pod.key);
        Some(if has_failed { Self::ENABLED } else { unchanged })
    }
}
