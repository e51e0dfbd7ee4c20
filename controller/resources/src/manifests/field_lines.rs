//! Lines of fields, which manifests are read again for.

use std::fs;
use std::sync::Arc;

use super::SourceLocation;
use super::files::STANDARD_INPUT_NAME;
use super::yaml::{self, YamlContent, YamlDocument, YamlNode};

/// Lines of fields in manifests.
///
/// Objects keep the line of their document only. Manifests are read again for the line of a field,
/// one at a time, so that callers ask in the order of the manifests.
#[derive(Default)]
pub struct FieldLines {
    /// Manifest from the standard input.
    input: String,
    /// Documents of the file that was read last.
    file: Option<(Arc<str>, Vec<YamlDocument>)>,
}

impl FieldLines {
    /// Lines of fields in files, and in this text from the standard input.
    pub fn new(input: String) -> Self {
        Self { input, file: None }
    }

    /// Line of a field of the object at a location; that of the innermost value around it if the
    /// field is missing, and that of the object if the file cannot be read any more.
    pub fn line(&mut self, location: &SourceLocation, field: &str) -> u32 {
        let documents = self.documents(&location.file);
        let found = documents.binary_search_by_key(&location.document, |one| one.number);
        let root = found.ok().and_then(|index| documents[index].content.as_ref().ok());
        let object = root.and_then(|root| object_at(root, location.line));
        object.map_or(location.line, |object| object.line_of(field))
    }

    fn documents(&mut self, file: &Arc<str>) -> &[YamlDocument] {
        let is_read = |(read, _): &(Arc<str>, _)| read == file;
        if !self.file.as_ref().is_some_and(is_read) {
            let documents = if &**file == STANDARD_INPUT_NAME {
                yaml::parse_stream(&self.input)
            } else {
                // Without the file, findings have the lines of their objects.
                let text = fs::read_to_string(&**file).unwrap_or_default();
                yaml::parse_stream(&text)
            };
            self.file = Some((file.clone(), documents));
        }
        self.file.as_ref().map_or(&[], |(_, documents)| documents)
    }
}

/// Object at a line: the document, or an item of its lists.
fn object_at(node: &YamlNode, line: u32) -> Option<&YamlNode> {
    if node.line == line && node.get("metadata").is_some() {
        return Some(node);
    }
    match &node.get("items")?.content {
        YamlContent::Sequence(items) => items.iter().find_map(|item| object_at(item, line)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::read_manifests;

    #[test]
    fn fields_have_lines_in_documents_and_lists() {
        let text = "\
apiVersion: kubeovn.io/v1
kind: Vlan
metadata: {name: a}
spec:
  provider: p
  id: 5
---
apiVersion: v1
kind: List
items:
- apiVersion: kubeovn.io/v1
  kind: Vlan
  metadata: {name: b}
  spec: {provider: p,
    id: 6}
- apiVersion: kubeovn.io/v1
  kind: Vpc
  metadata: {name: c}
  spec:
    policyRoutes:
    - {priority: 1}
    - priority: 2
      match: '1'
";
        let inventory = read_manifests(&["-".into()], &mut text.as_bytes()).unwrap();
        let mut lines = FieldLines::new(text.to_owned());
        let mut vlans = inventory.vlans.iter();
        let mut line =
            |location: Option<&SourceLocation>, field: &str| lines.line(location.unwrap(), field);
        for expected in [6, 15] {
            let (_, vlan) = vlans.next().unwrap();
            assert_eq!(line(vlan.origin.location(), "spec.id"), expected);
        }
        let (_, vpc) = inventory.vpcs.iter().next().unwrap();
        let location = vpc.origin.location();
        assert_eq!(line(location, "spec.policyRoutes[1].match"), 23);
        assert_eq!(line(location, "spec.policyRoutes[1].action"), 22);
        assert_eq!(line(location, ""), 16);
        let gone = SourceLocation { file: "no such file".into(), ..location.unwrap().clone() };
        assert_eq!(line(Some(&gone), "spec.policyRoutes"), 16);
    }
}
