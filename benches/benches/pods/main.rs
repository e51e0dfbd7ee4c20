//! Pods of one zone with a service and policies: from nothing, one by one, and without changes.
//!
//! `cargo bench --workspace --bench pods` measures up to 10,000 pods of a layer3 network in this
//! process. A number
//! limits the pods. Times are those of allocation and planning, without the transactions, unless
//! the line names them.

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

mod memory;
mod watched;
mod zone;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use cap::Cap;
use mimalloc::MiMalloc;
use patchbay_benches::text::{format_duration, growth_exponent};
use patchbay_model::Feature;

use memory::Memory;
use watched::WatchedSize;
use zone::{Figures, measure};

/// Allocator of `patchbay`, with a count of the live bytes.
#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

/// Numbers of pods.
const PODS: [usize; 4] = [1_250, 2_500, 5_000, 10_000];

/// One line of the table.
struct Line {
    name: &'static str,
    of: fn(&Figures) -> Duration,
    /// Goal, and the number of pods that it is for.
    goal: Option<(usize, Duration)>,
}

/// Lines of the table, in their order.
const LINES: [Line; 9] = [
    Line {
        name: "pods from nothing",
        of: |figures| figures.pods_first,
        goal: Some((10_000, Duration::from_secs(1))),
    },
    Line {
        name: "  their transaction, in this process",
        of: |figures| figures.pods_commit,
        goal: None,
    },
    Line {
        name: "one pod more",
        of: |figures| figures.pod_added,
        goal: Some((10_000, Duration::from_millis(1))),
    },
    Line {
        name: "  the next pass, which reads the written rows",
        of: |figures| figures.next_pass,
        goal: None,
    },
    Line { name: "no change", of: |figures| figures.unchanged, goal: None },
    Line { name: "policy that selects all pods", of: |figures| figures.policy_first, goal: None },
    Line {
        name: "one pod more that the policy selects",
        of: |figures| figures.policy_pod_added,
        goal: None,
    },
    Line {
        name: "service with an endpoint for each ten pods",
        of: |figures| figures.service_first,
        goal: None,
    },
    Line {
        name: "one endpoint less",
        of: |figures| figures.endpoint_removed,
        goal: Some((10_000, Duration::from_millis(2))),
    },
];

/// Argument for the figures of watched objects alone. Names of features switch them on.
const WATCHED: &str = "watched";

/// Clusters whose objects are watched: one with many networks, and one with many nodes.
const WATCHED_SIZES: [WatchedSize; 2] = [
    WatchedSize { networks: 1_000, nodes: 100, pods: 10_000 },
    WatchedSize { networks: 16, nodes: 3_000, pods: 250 },
];

/// Measures the clusters whose objects are watched, with these features.
fn report_watched(features: &BTreeSet<Feature>) -> Result<()> {
    let mut sizes = WATCHED_SIZES.into_iter();
    sizes.try_for_each(|size| watched::report(size, features))
}

/// One line of the table of memory.
type MemoryLine = (&'static str, fn(&Memory) -> usize);

/// Lines of the table of memory, in their order. The last one has the goal.
const MEMORY_LINES: [MemoryLine; 5] = [
    ("bytes of each pod, inputs", |memory| memory.inputs),
    ("  allocator", |memory| memory.allocator),
    ("  controller", |memory| memory.controller),
    ("  rows in the database", |memory| memory.rows),
    ("  inputs, allocator and controller", Memory::beside_rows),
];

/// Bytes of each pod beside its rows that are the goal.
const MEMORY_GOAL: usize = 4_096;

/// Measures and prints the memory of each pod.
fn report_memory(sizes: &[usize]) -> Result<()> {
    let all = sizes.iter().map(|pods| memory::measure(*pods));
    let all = all.collect::<Result<Vec<_>>>()?;
    for (name, of) in MEMORY_LINES {
        print!("{name:<46}");
        for memory in &all {
            print!("{:>12}", of(memory));
        }
        println!();
    }
    println!("{:<46}{MEMORY_GOAL:>12}", "  goal");
    Ok(())
}

fn main() -> Result<()> {
    if std::env::args().any(|argument| argument == WATCHED) {
        let is_given = |feature: &Feature| std::env::args().any(|one| one == feature.as_str());
        let features: BTreeSet<Feature> = Feature::ALL.into_iter().filter(is_given).collect();
        return report_watched(&features);
    }
    let limit = std::env::args().find_map(|argument| argument.parse::<usize>().ok());
    let sizes: Vec<usize> =
        PODS.into_iter().filter(|pods| limit.is_none_or(|limit| *pods <= limit)).collect();
    let all = sizes.iter().map(|pods| measure(*pods)).collect::<Result<Vec<_>>>()?;
    print!("{:<46}", "pods in one zone");
    for size in &sizes {
        print!("{size:>12}");
    }
    println!("  exponent");
    for line in LINES {
        let times = all.iter().map(line.of);
        let points: Vec<(f64, f64)> = sizes
            .iter()
            .zip(times.clone())
            .map(|(size, time)| (*size as f64, time.as_secs_f64() * 1e3))
            .collect();
        print!("{:<46}", line.name);
        for time in times {
            print!("{:>12}", format_duration(time));
        }
        match growth_exponent(&points) {
            Some(exponent) => print!("  {exponent:>8.2}"),
            None => print!("  {:>8}", "-"),
        }
        match line.goal.filter(|(pods, _)| sizes.contains(pods)) {
            Some((pods, goal)) => println!("  goal at {pods}: {}", format_duration(goal)),
            None => println!(),
        }
    }
    report_memory(&sizes)?;
    report_watched(&BTreeSet::new())
}
