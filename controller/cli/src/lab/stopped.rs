//! Programs of a lab that a command has killed, as the reason of lost packets and rows without
//! effect.

use patchbay_lab::Lab;

/// A line for each stopped program of these nodes, with the command that starts it.
pub(super) fn stopped_programs(lab: &Lab, is_concerned: impl Fn(&str) -> bool) -> Vec<String> {
    let stopped = lab.stopped_programs();
    stopped
        .filter(|(node, _)| is_concerned(node))
        .map(|(node, program)| {
            let effect = match program {
                "ovn-northd" => "changed rows make no flows",
                "ovn-controller" => "changed flows do not reach the switch",
                _ => "no packet passes the node",
            };
            format!(
                "{program} does not run on {node}: {effect}; `start {node} {program}` starts it"
            )
        })
        .collect()
}

/// Stopped programs of the nodes that a question is about: those of the pods that it names. A
/// question that names other destinations is about all nodes.
pub(super) fn stopped_on_the_way(lab: &Lab, words: &[&str]) -> Vec<String> {
    let node_of = |word: &str| {
        let name = word.rsplit_once(':').map_or(word, |(name, _)| name);
        let found = lab.find_pod(name).ok()?;
        let mut pods = lab.pods();
        pods.find(|pod| pod.name == found).map(|pod| pod.node.as_str())
    };
    let nodes: Option<Vec<&str>> = words.iter().map(|word| node_of(word)).collect();
    match nodes.as_deref() {
        None | Some([]) => stopped_programs(lab, |_| true),
        Some(nodes) => stopped_programs(lab, |node| nodes.contains(&node)),
    }
}
