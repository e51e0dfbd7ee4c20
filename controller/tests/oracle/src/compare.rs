//! Answers of `patchbay_reach`, compared with those of ovn-trace.

use std::fmt::Write as _;

use patchbay_reach::{Answer, Hop, HopKind, Northbound, Question, Verdict};

use crate::arp::ArpRequest;
use crate::neighbor::{is_answered, is_silent};
use crate::outcome::{MacRequest, TraceOutcome};
use crate::trace_server::{Format, TraceServer};

/// Question with its packet in the notation of ovn-trace.
#[derive(Debug)]
pub struct Asked {
    /// The question.
    pub question: Question,
    /// `None`: the sender gets no MAC address, so that it sends nothing.
    pub packet: Option<TracedPacket>,
}

/// Packet in the notation of ovn-trace.
#[derive(Clone, Debug)]
pub struct TracedPacket {
    /// Switch into which the packet comes.
    pub datapath: String,
    /// Its fields.
    pub expression: String,
    /// Request that the sender sends before. `None`: neighbour discovery, which ACLs let pass, or a
    /// machine outside.
    pub arp: Option<ArpRequest>,
}

/// Numbers of a comparison, and the differences.
#[derive(Debug, Default)]
pub struct Tally {
    /// Questions that both have answered.
    pub asked: usize,
    /// Questions for which ovn-trace has ended, or has not answered in time.
    pub untraced: usize,
    /// Answers that differ from the output of ovn-trace, which is known not to be OVN's behaviour
    /// there.
    pub excused: usize,
    /// Answers that differ where OVN leaves a choice.
    pub open: usize,
    /// Packets that go out somewhere.
    pub arrived: usize,
    /// Answers that differ, each with the path and the output of ovn-trace.
    pub wrong: Vec<String>,
}

impl Tally {
    /// The numbers in a line.
    pub fn summary(&self) -> String {
        format!(
            "{} questions, {} arrive, {} open, {} excused, {} differences; {} more not traced",
            self.asked,
            self.arrived,
            self.open,
            self.excused,
            self.wrong.len(),
            self.untraced
        )
    }

    /// Adds the origin of the database to the first difference from number `first` on.
    pub(crate) fn explain(&mut self, first: usize, origin: &str) {
        if let Some(wrong) = self.wrong.get_mut(first) {
            *wrong = format!("{wrong}\n{origin}");
        }
    }

    /// Text of the first differences.
    pub fn differences(&self) -> String {
        const LISTED_MAX: usize = 5;
        let listed = self.wrong.iter().take(LISTED_MAX);
        let mut text = listed.map(String::as_str).collect::<Vec<_>>().join("\n\n");
        if self.wrong.len() > LISTED_MAX {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n\nand {} more", self.wrong.len() - LISTED_MAX);
        }
        text
    }
}

/// Asks both, and counts the answers.
///
/// # Panics
/// The database has no such sender.
pub fn compare(northbound: &Northbound, trace: &mut TraceServer, asked: &Asked, tally: &mut Tally) {
    let answer = northbound.answer(&asked.question).expect("the question names a port");
    let Some(packet) = &asked.packet else {
        tally.asked += 1;
        if answer.verdict == Verdict::Unanswered || is_stopped_at_once(&answer) {
            return;
        }
        if has_choice(&answer) {
            tally.open += 1;
            return;
        }
        let expected = format!("{:?}\nthe sender sends nothing", asked.question);
        tally.wrong.push(describe(&answer, &expected));
        return;
    };
    let Some(text) = trace.trace(&packet.datapath, &packet.expression) else {
        tally.untraced += 1;
        return;
    };
    let outcome = TraceOutcome::read(&text);
    let mac = match &packet.arp {
        Some(arp) if arp.is_answered(trace, &packet.datapath) => MacAnswer::Given,
        Some(_) => MacAnswer::Missing,
        None => MacAnswer::NotAsked,
    };
    tally.asked += 1;
    tally.arrived += usize::from(!outcome.outputs.is_empty());
    let is_right = is_right(&answer, &outcome, &asked.question, mac)
        && !(is_direct(&answer) && is_silent_neighbor(&outcome, mac, trace, packet));
    if is_right {
        return;
    }
    if is_excused(&answer)
        || outcome.request.is_none() && is_stopped_request(&answer)
        || outcome.is_learning && is_learned(trace, packet, &outcome) != is_without_mac(&answer)
        || is_asked(&answer, &outcome)
        || outcome.request == Some(MacRequest::Nd) && is_answered(trace, packet, &text)
        || answer.verdict == Verdict::Unanswered && is_silent_neighbor(&outcome, mac, trace, packet)
    {
        tally.excused += 1;
        return;
    }
    if has_choice(&answer) {
        tally.open += 1;
        return;
    }
    let expected = format!(
        "{}: {}\nexpected {outcome:?}, MAC address {mac:?}\n{text}",
        packet.datapath, packet.expression
    );
    tally.wrong.push(describe(&answer, &expected));
}

/// `true` if OVN may do otherwise. ovn-trace takes all chassis for the active gateway, and reads the
/// rows of a stock ovn-northd.
pub(crate) fn has_choice(answer: &Answer) -> bool {
    answer.open.iter().any(|choice| !choice.starts_with("only "))
}

/// `true` if the router that asks for a MAC address gets the reply.
fn is_learned(trace: &mut TraceServer, packet: &TracedPacket, outcome: &TraceOutcome) -> bool {
    if outcome.request != Some(MacRequest::Arp) {
        return true;
    }
    let summary = trace.trace_as(Format::Summary, &packet.datapath, &packet.expression);
    summary.is_none_or(|text| {
        // Other routers learn from the request, but only the one that asks from the reply.
        let reply = text.rsplit_once("arp.op = 2;");
        reply.is_some_and(|(_, reply)| reply.contains("put_arp("))
    })
}

/// `true` if the packet ends because a router gets no MAC address of the next hop.
fn is_without_mac(answer: &Answer) -> bool {
    let last = answer.hops.last().map(|hop| hop.stage);
    answer.verdict == Verdict::Dropped && last == Some("lr_in_arp_resolve")
}

/// `true` if the ARP request of a router is stopped, or the reply. Where the Southbound database
/// has the MAC address, ovn-trace does not follow the request.
fn is_stopped_request(answer: &Answer) -> bool {
    let last = answer.hops.last();
    is_without_mac(answer) && last.is_some_and(|hop| hop.decision.starts_with("ARP for "))
}

/// `true` if the answer is that the machine to which the sender sends gets the packet, on its
/// switch.
fn is_direct(answer: &Answer) -> bool {
    let switch = answer.hops.first().map(|hop| &hop.name);
    let is_other = |hop: &Hop| Some(&hop.name) != switch || hop.stage == "ls_in_lb";
    answer.verdict == Verdict::Reaches && !answer.hops.iter().any(is_other)
}

/// `true` if the machine to which the sender sends does not give it a MAC address. The neighbour
/// discovery of IPv6 is traced here.
fn is_silent_neighbor(
    outcome: &TraceOutcome,
    mac: MacAnswer,
    trace: &mut TraceServer,
    packet: &TracedPacket,
) -> bool {
    let [output] = &outcome.outputs[..] else {
        return false;
    };
    mac == MacAnswer::NotAsked && is_silent(trace, packet, output)
}

fn describe(answer: &Answer, expected: &str) -> String {
    let hops = answer
        .hops
        .iter()
        .map(|hop| format!("{} {} {}: {}", hop.kind, hop.name, hop.stage, hop.decision));
    format!(
        "{:?} {:?} source {:?} at {}\n{}\n{expected}",
        answer.verdict,
        answer.out,
        answer.source,
        answer.at,
        hops.collect::<Vec<_>>().join("\n")
    )
}

/// `true` if the request of a router goes to the port to which the switch sends the packet, so that
/// the machine has to answer itself.
fn is_asked(answer: &Answer, outcome: &TraceOutcome) -> bool {
    let mut ports = answer.hops.iter().filter_map(|hop| hop.decision.strip_prefix("to port "));
    ports.any(|port| outcome.asked.iter().any(|asked| asked == port))
}

/// Answer to a sender's ARP request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum MacAnswer {
    Given,
    Missing,
    /// The request was not traced.
    NotAsked,
}

/// `true` if the sender's port stops the packet. It stops the ARP request, too.
fn is_stopped_at_once(answer: &Answer) -> bool {
    let is_router = |hop: &Hop| hop.kind == HopKind::Router;
    let stage = answer.hops.last().map_or("", |hop| hop.stage);
    answer.verdict == Verdict::Dropped
        && matches!(stage, "ls_in_check_port_sec" | "ls_in_apply_port_sec")
        && !answer.hops.iter().any(is_router)
}

/// `true` if ovn-trace is known to differ from OVN for such a packet.
fn is_excused(answer: &Answer) -> bool {
    // It compares the port of a packet with that of any VIP with the address in the database.
    answer.hops.iter().any(|hop| hop.stage == "ls_in_hairpin")
        // It does not restore the source of an echo request when the answer comes back.
        || answer.verdict == Verdict::Answered
            && answer.hops.iter().any(|hop| hop.stage == "lr_out_snat")
        // ACLs behind the router see another source there.
        || has_hidden_source(answer)
}

/// `true` if the answer is that of ovn-trace.
fn is_right(answer: &Answer, outcome: &TraceOutcome, question: &Question, mac: MacAnswer) -> bool {
    if mac == MacAnswer::Missing {
        let is_stopped = is_stopped_at_once(answer) && outcome.outputs.is_empty();
        return answer.verdict == Verdict::Unanswered || is_stopped;
    }
    let sender = question.sender.port.as_deref().unwrap_or_default();
    let is_back = outcome.outputs.iter().any(|port| port == sender);
    let source = answer.source.map(|source| source.to_string());
    let goes_out = answer.out.as_ref().is_some_and(|out| outcome.outputs.contains(out));
    match answer.verdict {
        Verdict::Reaches | Verdict::Leaves => {
            goes_out && (source == outcome.source || has_hidden_source(answer))
        }
        Verdict::Answered => outcome.is_answer && is_back,
        Verdict::Dropped => {
            let has_no_mac = outcome.request.is_some() && is_without_mac(answer);
            outcome.outputs.is_empty() || outcome.is_answer && !is_back || has_no_mac
        }
        Verdict::Unanswered => mac == MacAnswer::NotAsked && outcome.outputs.is_empty(),
    }
}

/// `true` if the source was decided by flags of a load balancer or by a hairpin. ovn-trace loses
/// the flags between ingress and egress, and does not replace the source of a hairpin.
pub(crate) fn has_hidden_source(answer: &Answer) -> bool {
    answer.hops.iter().any(|hop| {
        hop.stage == "ls_in_hairpin"
            || hop.decision.starts_with("forced source")
            || hop.decision.starts_with("skip_snat")
    })
}
