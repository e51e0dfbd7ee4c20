//! Complete objects as watches have delivered them.

use std::mem;
use std::sync::Arc;

use patchbay_resources::object::{Container, Node, Object, Pod, PodSpec};

use crate::tolerant_object::TolerantObject;

/// An object as a watch has delivered it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Watched<K> {
    Readable(Arc<K>),
    /// The object cannot be decoded; the text is the reason.
    Unreadable(Arc<str>),
}

/// Projects an object to itself without managed fields, and without what `prune` removes.
pub(crate) fn project<K: Object>(prune: fn(&mut K)) -> impl Fn(TolerantObject<K>) -> Watched<K> {
    move |object| match object.0 {
        Ok(mut object) => {
            object.meta_mut().managed_fields = None;
            prune(&mut object);
            Watched::Readable(Arc::new(object))
        }
        Err(unreadable) => Watched::Unreadable(unreadable.error.into()),
    }
}

/// Removes nothing.
pub(crate) fn keep_all<K>(_: &mut K) {}

/// Removes the parts of a node that no controller reads.
pub(crate) fn without_node_details(node: &mut Node) {
    node.spec = None;
    node.status = None;
}

/// Removes the parts of a pod that no controller reads, such as images and volumes.
pub(crate) fn without_containers(pod: &mut Pod) {
    let Some(spec) = &mut pod.spec else {
        return;
    };
    let mut kept = PodSpec::default();
    kept.node_name = spec.node_name.take();
    kept.host_network = spec.host_network;
    for container in mem::take(&mut spec.containers) {
        let mut ports = Container::default();
        ports.name = container.name;
        ports.ports = container.ports;
        kept.containers.push(ports);
    }
    *spec = kept;
}
