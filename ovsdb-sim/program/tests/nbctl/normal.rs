//! Normalization of the output of `ovn-nbctl` on two servers.
//!
//! The same rows have different UUIDs on two servers, and so different orders where `ovn-nbctl`
//! iterates over a hash table or a set of UUIDs. UUIDs become `<uuid N>`, numbered as they first
//! appear. If their order is random (two members of one set, two records with equal output), they
//! become `<uuid ?>`.

use std::collections::HashMap;

const UUID_LEN: usize = 36;

/// UUIDs in the output of one server so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<String, usize>,
}

impl Names {
    /// Renames the UUIDs of a text. Sorts the records of an unordered text first.
    pub(crate) fn normalise(&mut self, text: &str, unordered: bool) -> String {
        let text = &sort_violations(text);
        let sorted = if unordered { self.sort(text) } else { text.clone() };
        let repeated = if unordered { self.alike(&sorted) } else { Vec::new() };
        let mut normal = String::with_capacity(sorted.len());
        for line in sorted.lines() {
            if !repeated.contains(&self.mask(line)) {
                self.learn(line);
            }
            normal.push_str(&self.mask(line));
            normal.push('\n');
        }
        if !sorted.ends_with('\n') {
            normal.pop();
        }
        normal
    }

    /// Numbers the UUIDs of a line, except those of a set with several new members.
    fn learn(&mut self, line: &str) {
        let parts = split(line);
        let mut at = 0;
        while at < parts.len() {
            let set = set_len(&parts[at..]);
            let members = &parts[at..at + set.max(1)];
            let new: Vec<_> = members
                .iter()
                .filter_map(Part::uuid)
                .filter(|uuid| !self.numbers.contains_key(*uuid))
                .collect();
            if let [uuid] = new[..] {
                let number = self.numbers.len() + 1;
                self.numbers.insert(uuid.to_owned(), number);
            }
            at += members.len();
        }
    }

    /// The line with its UUIDs renamed and its sets of UUIDs in the order of the names.
    fn mask(&self, line: &str) -> String {
        let parts = split(line);
        let mut masked = String::new();
        let mut at = 0;
        while let Some(part) = parts.get(at) {
            match part {
                Part::Text(text) => {
                    masked.push_str(text);
                    at += 1;
                }
                Part::Uuid(_) => {
                    let set = &parts[at..at + set_len(&parts[at..])];
                    let uuids = set.iter().filter_map(Part::uuid);
                    let mut names: Vec<_> = uuids.map(|uuid| self.name(uuid)).collect();
                    names.sort_unstable();
                    masked.push_str(&names.join(", "));
                    at += set.len();
                }
            }
        }
        masked
    }

    fn name(&self, uuid: &str) -> String {
        match self.numbers.get(uuid) {
            Some(number) => format!("<uuid {number}>"),
            None => "<uuid ?>".to_owned(),
        }
    }

    /// Sorts records: those separated by blank lines as they are, otherwise lines with the more
    /// indented ones below them, at every level.
    fn sort(&self, text: &str) -> String {
        let indented = text.lines().any(|line| line.starts_with(' '));
        if text.contains("\n\n") && !indented {
            let mut records: Vec<_> = text.trim_end().split("\n\n").collect();
            records.sort_by_cached_key(|record| self.mask(record));
            return records.join("\n\n") + &text[text.trim_end().len()..];
        }
        let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
        self.sort_lines(&lines).join("\n") + &text[text.trim_end_matches('\n').len()..]
    }

    fn sort_lines<'a>(&self, lines: &[&'a str]) -> Vec<&'a str> {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let Some(level) = lines.first().map(|line| indent(line)) else {
            return Vec::new();
        };
        let mut records: Vec<Vec<&str>> = Vec::new();
        for line in lines {
            match records.last_mut() {
                Some(record) if indent(line) > level => record.push(line),
                _ => records.push(vec![line]),
            }
        }
        for record in &mut records {
            let below = self.sort_lines(&record[1..]);
            record.truncate(1);
            record.extend(below);
        }
        records.sort_by_cached_key(|record| self.mask(&record.join("\n")));
        records.concat()
    }

    /// The masked lines that are more than once in a text.
    fn alike(&self, text: &str) -> Vec<String> {
        let mut lines: Vec<_> = text.lines().map(|line| self.mask(line)).collect();
        lines.sort_unstable();
        let mut repeated: Vec<_> = lines
            .windows(2)
            .filter(|pair| pair[0] == pair[1])
            .map(|pair| pair[0].clone())
            .collect();
        repeated.dedup();
        repeated
    }
}

/// Sorts the two rows of index violations, whose order depends on their UUIDs.
fn sort_violations(text: &str) -> String {
    const FIRST: &str = "First row, with UUID ";
    const SECOND: &str = ".  Second row, with UUID ";
    text.lines()
        .map(|line| {
            let rows = line.split_once(FIRST).and_then(|(before, rest)| {
                let (first, rest) = rest.split_once(SECOND)?;
                let (second, after) = rest.split_once(".\"")?;
                let fate = |row: &str| row.get(UUID_LEN..).map(str::to_owned);
                let (first, second) =
                    if fate(first) <= fate(second) { (first, second) } else { (second, first) };
                Some(format!("{before}{FIRST}{first}{SECOND}{second}.\"{after}"))
            });
            rows.unwrap_or_else(|| line.to_owned())
        })
        .collect::<Vec<_>>()
        .join("\n")
        + &text[text.trim_end_matches('\n').len()..]
}

#[derive(Debug)]
enum Part<'a> {
    Text(&'a str),
    Uuid(&'a str),
}

impl<'a> Part<'a> {
    fn uuid(&self) -> Option<&'a str> {
        match self {
            Part::Uuid(uuid) => Some(uuid),
            Part::Text(_) => None,
        }
    }
}

/// The number of parts at the beginning that form a list `UUID, UUID...`. 0: the first is not a
/// UUID.
fn set_len(parts: &[Part]) -> usize {
    let mut len = 0;
    while matches!(parts.get(len), Some(Part::Uuid(_))) {
        len += 1;
        match parts.get(len) {
            Some(Part::Text(", ")) => len += 1,
            _ => return len,
        }
    }
    len.saturating_sub(1)
}

fn split(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at + UUID_LEN <= text.len() {
        if let Some(candidate) = text.get(at..at + UUID_LEN).filter(|candidate| is_uuid(candidate))
        {
            if start < at {
                parts.push(Part::Text(&text[start..at]));
            }
            parts.push(Part::Uuid(candidate));
            at += UUID_LEN;
            start = at;
        } else {
            at += 1;
        }
    }
    if start < text.len() {
        parts.push(Part::Text(&text[start..]));
    }
    parts
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    })
}

#[cfg(test)]
mod tests {
    use super::Names;

    fn uuid(digit: u8) -> String {
        format!("{digit:08}-0000-4000-8000-000000000000")
    }

    #[test]
    fn uuids_are_numbered_as_they_appear() {
        let text = format!("{} (a)\n{} (b) {}\n", uuid(7), uuid(3), uuid(7));
        assert_eq!(
            Names::default().normalise(&text, false),
            "<uuid 1> (a)\n<uuid 2> (b) <uuid 1>\n"
        );
    }

    #[test]
    fn the_order_of_records_and_of_their_content_does_not_matter() {
        let one = format!(
            "switch {} (a)\n    port y\n        mac\n    port x\nswitch {} (b)\n",
            uuid(7),
            uuid(3)
        );
        let two = format!(
            "switch {} (b)\nswitch {} (a)\n    port x\n    port y\n        mac\n",
            uuid(1),
            uuid(2)
        );
        let normal = Names::default().normalise(&one, true);
        assert_eq!(normal, Names::default().normalise(&two, true));
        assert_eq!(
            normal,
            "switch <uuid 1> (a)\n    port x\n    port y\n        mac\nswitch <uuid 2> (b)\n"
        );
    }

    #[test]
    fn a_set_of_new_uuids_does_not_identify_them() {
        let mut names = Names::default();
        assert_eq!(
            names.normalise(&format!("[{}, {}]", uuid(7), uuid(3)), false),
            "[<uuid ?>, <uuid ?>]"
        );
        assert_eq!(names.normalise(&uuid(3), false), "<uuid 1>");
        assert_eq!(
            names.normalise(&format!("[{}, {}]", uuid(3), uuid(7)), false),
            "[<uuid 1>, <uuid 2>]"
        );
    }

    #[test]
    fn records_with_equal_output_are_not_distinguished() {
        let mut names = Names::default();
        let text = format!("_uuid : {}\nname : a\n\n_uuid : {}\nname : a\n", uuid(7), uuid(3));
        assert_eq!(
            names.normalise(&text, true),
            "_uuid : <uuid ?>\nname : a\n\n_uuid : <uuid ?>\nname : a\n"
        );
    }

    #[test]
    fn the_rows_of_a_violated_index_have_no_order() {
        let details = |first: &str, second: &str| {
            format!(
                "\"First row, with UUID {first}.  Second row, with UUID {second}.\",\"error\"\n"
            )
        };
        let (new, old) = (format!("{}, was inserted", uuid(7)), format!("{}, existed", uuid(3)));
        let normal = |text: String| Names::default().normalise(&text, false);
        assert_eq!(
            normal(details(&new, &old)),
            details("<uuid 1>, existed", "<uuid 2>, was inserted")
        );
        assert_eq!(normal(details(&new, &old)), normal(details(&old, &new)));
    }

    #[test]
    fn a_different_text_stays_different() {
        let of = |text: &str| Names::default().normalise(text, true);
        assert_ne!(of("switch a\n    port x\nswitch b\n"), of("switch a\nswitch b\n    port x\n"));
        assert_ne!(of("a\n"), of("a"));
    }
}
