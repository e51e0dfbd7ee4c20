//! Text of complete parts, removed from a message that is still being received.

use std::borrow::Cow;

use crate::json::{
    Framer, JsonError, OpenArray, OpenObject, RETAINED_BYTES, Reader, Stop, Text, TextBuf,
};

/// Complete members of an object of objects that has not ended, such as the rows of a table.
#[derive(Debug)]
pub struct OpenRows<'a> {
    framer: &'a mut Framer,
    object: OpenObject,
}

/// Members of an object of objects that were received but not scanned. Decoding them validates
/// them.
#[derive(Debug)]
pub struct UnvalidatedRows<'a> {
    framer: &'a mut Framer,
    object: OpenObject,
}

/// Complete elements of an array that has not ended, such as the operations of a request.
///
/// The array is a member of the outermost object. Its first element is not included.
#[derive(Debug)]
pub struct OpenElements<'a> {
    framer: &'a mut Framer,
    array: OpenArray,
}

/// Parts of a text that has not ended. Call after [`next_text`](Self::next_text) returned `None`.
impl Framer {
    /// Returns the complete rows of the open table, if they have at least `min_len` bytes.
    ///
    /// A table is recognised by its nesting. It is a member of an object that is a member of the
    /// text, or an element of an array that is a member of the text.
    ///
    /// ```
    /// # use patchbay_schemas::json::Framer;
    /// let mut framer = Framer::new(usize::MAX);
    /// framer.push(br#"{"id":1,"result":{"T":{"one":{"a":[]},"two":5,"thr"#);
    /// assert!(framer.next_text()?.is_none());
    /// let rows = framer.open_rows(1).unwrap();
    /// assert_eq!(rows.head()?.as_text().bytes(), br#"{"id":1,"result":{"T":{}}}"#);
    /// assert_eq!(&*rows.name(), b"T");
    /// rows.take(|rows| assert_eq!(rows.bytes(), br#"{"one":{"a":[]},"two":5}"#));
    /// framer.push(br#"ee":0}}}"#);
    /// let rest = framer.next_text()?.unwrap();
    /// assert_eq!(rest.as_text().bytes(), br#"{"id":1,"result":{"T":{"three":0}}}"#);
    /// # Ok::<(), patchbay_schemas::json::JsonError>(())
    /// ```
    pub fn open_rows(&mut self, min_len: usize) -> Option<OpenRows<'_>> {
        let object = self.scanner.open_object()?;
        let is_enough = self.start == 0 && object.end - object.begin >= min_len.max(1);
        is_enough.then_some(OpenRows { framer: self, object })
    }

    /// Returns the rows behind the current row of the open table, which have not been scanned.
    ///
    /// Call before [`next_text`](Self::next_text), which would scan them. The current row is
    /// scanned to its end first; it is then part of [`open_rows`](Self::open_rows).
    ///
    /// # Errors
    /// The same as those of [`next_text`](Self::next_text).
    ///
    /// ```
    /// # use patchbay_schemas::json::Framer;
    /// let mut framer = Framer::new(usize::MAX);
    /// framer.push(br#"{"id":1,"result":{"T":{"one":1,"two":[],"thr"#);
    /// assert!(framer.next_text()?.is_none());
    /// framer.push(br#"ee":3,"four":4,"five":5"#);
    /// let rows = framer.unvalidated_rows()?.unwrap();
    /// let numbers = rows.take(|reader| reader.next_member().and_then(|_| reader.integer()));
    /// assert_eq!(numbers, [4]);
    /// framer.push(br#"}}}"#);
    /// let rest = framer.next_text()?.unwrap();
    /// let text = br#"{"id":1,"result":{"T":{"one":1,"two":[],"three":3,"five":5}}}"#;
    /// assert_eq!(rest.as_text().bytes(), text);
    /// # Ok::<(), patchbay_schemas::json::JsonError>(())
    /// ```
    pub fn unvalidated_rows(&mut self) -> Result<Option<UnvalidatedRows<'_>>, JsonError> {
        if self.start > 0 || self.scanner.open_object().is_none() {
            return Ok(None);
        }
        let is_between = self.scanner.scan_member(&self.buffer);
        if !is_between.map_err(|error| error.offset_by(self.removed))? {
            return Ok(None);
        }
        let object = self.scanner.open_object();
        Ok(object.map(|object| UnvalidatedRows { framer: self, object }))
    }

    /// Returns the complete elements of the open array from the second on, if they have at least
    /// `min_len` bytes.
    ///
    /// ```
    /// # use patchbay_schemas::json::Framer;
    /// let mut framer = Framer::new(usize::MAX);
    /// framer.push(br#"{"method":"m","params":["first",{"a":[]},5,tr"#);
    /// assert!(framer.next_text()?.is_none());
    /// let elements = framer.open_elements(1).unwrap();
    /// assert_eq!(elements.head()?.as_text().bytes(), br#"{"method":"m","params":["first"]}"#);
    /// assert_eq!(elements.take().as_text().bytes(), br#"[{"a":[]},5]"#);
    /// framer.push(br#"ue],"id":1}"#);
    /// let rest = framer.next_text()?.unwrap();
    /// assert_eq!(rest.as_text().bytes(), br#"{"method":"m","params":["first",true],"id":1}"#);
    /// # Ok::<(), patchbay_schemas::json::JsonError>(())
    /// ```
    pub fn open_elements(&mut self, min_len: usize) -> Option<OpenElements<'_>> {
        let array = self.scanner.open_array()?;
        let is_enough = self.start == 0 && array.end - array.begin >= min_len.max(1);
        is_enough.then_some(OpenElements { framer: self, array })
    }

    /// Returns the first `len` bytes of the text, with brackets that close its outermost `depth`
    /// containers.
    fn head(&self, len: usize, depth: usize) -> Result<TextBuf, JsonError> {
        let mut head = self.buffer[self.leading_space()..len].to_vec();
        head.extend(self.scanner.closing_brackets(depth));
        TextBuf::parse(head)
    }

    /// Returns the name of an open object.
    fn member_name(&self, object: OpenObject) -> Cow<'_, [u8]> {
        let mut reader = Reader::new(Text(&self.buffer[object.name..]));
        reader.string().unwrap_or_default()
    }

    /// Removes the elements of an array from the text and returns a copy of them.
    fn copy_elements(&mut self, array: OpenArray) -> TextBuf {
        let OpenArray { begin, end } = array;
        let mut bytes = Vec::with_capacity(end - begin + 2);
        bytes.push(b'[');
        bytes.extend_from_slice(&self.buffer[begin..end]);
        bytes.push(b']');
        self.remove(begin, end + 1);
        TextBuf::from_valid(bytes, 0)
    }

    /// Removes bytes from the text.
    fn remove(&mut self, begin: usize, end: usize) {
        self.buffer.drain(begin..end);
        self.note_removal(begin, end);
        self.shrink();
    }

    /// Adjusts all positions to bytes that were removed from the text.
    fn note_removal(&mut self, begin: usize, end: usize) {
        self.removed += end - begin;
        self.scanner.adjust_after_removal(begin, end - begin);
    }
}

impl OpenRows<'_> {
    /// Returns the text before the rows as a complete text: the table is empty, and nothing follows
    /// it.
    ///
    /// # Errors
    /// Never in practice, because the start of a valid text is completed with the brackets it
    /// needs.
    pub fn head(&self) -> Result<TextBuf, JsonError> {
        self.framer.head(self.object.begin, self.object.depth)
    }

    /// Returns the name of the table.
    pub fn name(&self) -> Cow<'_, [u8]> {
        self.framer.member_name(self.object)
    }

    /// Returns the index of the first row in the complete text.
    pub fn index(&self) -> usize {
        self.object.begin - self.framer.leading_space()
    }

    /// Passes the rows to `read` as one object, and removes them from the message.
    pub fn take<T>(self, read: impl FnOnce(Text<'_>) -> T) -> T {
        let OpenObject { begin, end, .. } = self.object;
        let framer = self.framer;
        // Replaces the comma behind the rows, which is removed with them.
        framer.buffer[end] = b'}';
        let result = read(Text(&framer.buffer[begin - 1..=end]));
        framer.remove(begin, end + 1);
        result
    }
}

impl UnvalidatedRows<'_> {
    /// Returns the complete rows before these, which are validated.
    pub fn validated(&mut self) -> Option<OpenRows<'_>> {
        self.framer.open_rows(1)
    }

    /// Returns the name of the table.
    pub fn name(&self) -> Cow<'_, [u8]> {
        self.framer.member_name(self.object)
    }

    /// Returns the index of the first row in the complete text.
    pub fn index(&self) -> usize {
        self.object.begin - self.framer.leading_space()
    }

    /// Removes rows from the message one by one until `read` returns `None`.
    ///
    /// The row for which it returns `None` stays in the message, as do the last row of a table and
    /// everything behind.
    pub fn take<T>(self, mut read: impl FnMut(&mut Reader<'_, true>) -> Option<T>) -> Vec<T> {
        let begin = self.framer.scanner.position();
        let mut reader = Reader::validating(&self.framer.buffer[begin..]);
        let (mut rows, mut len) = (Vec::new(), 0);
        while let Some(row) = read(&mut reader)
            && reader.pass_comma()
        {
            rows.push(row);
            len = reader.position();
        }
        let is_incomplete = reader.stopped() == Some(Stop::EndOfInput);
        let framer = self.framer;
        framer.remove(begin, begin + len);
        // The scanner waits for the rest of an incomplete row only once. Otherwise each part of a
        // row that is received slowly would be read from the start of the row.
        let is_first = len > 0 || framer.waits_at_len.is_none();
        framer.waits_at_len = (is_incomplete && is_first).then_some(framer.buffer.len());
        rows
    }
}

impl OpenElements<'_> {
    /// Returns the text before the elements as a complete text: the array ends behind its first
    /// element, and nothing follows it.
    ///
    /// # Errors
    /// Never in practice, because the start of a valid text is completed with the brackets it
    /// needs.
    pub fn head(&self) -> Result<TextBuf, JsonError> {
        self.framer.head(self.array.begin - 1, OpenArray::DEPTH)
    }

    /// Returns the index of the second element in the complete text.
    pub fn index(&self) -> usize {
        self.array.begin - self.framer.leading_space()
    }

    /// Removes the elements from the message and returns them as an array.
    pub fn take(self) -> TextBuf {
        self.take_with_buffer(Vec::new())
    }

    /// Like [`take`](Self::take). The rest of the message moves to `spare`, because it is shorter
    /// than the elements.
    pub(super) fn take_with_buffer(self, mut spare: Vec<u8>) -> TextBuf {
        let OpenArray { begin, end } = self.array;
        let framer = self.framer;
        let rest = begin + framer.buffer.len() - end;
        if rest > end - begin {
            return framer.copy_elements(self.array);
        }
        spare.clear();
        spare.reserve(framer.buffer.capacity().min(RETAINED_BYTES));
        spare.extend_from_slice(&framer.buffer[..begin]);
        spare.extend_from_slice(&framer.buffer[end + 1..]);
        let mut bytes = std::mem::replace(&mut framer.buffer, spare);
        framer.note_removal(begin, end + 1);
        bytes.truncate(end + 1);
        // Commas are around the elements.
        bytes[begin - 1] = b'[';
        bytes[end] = b']';
        TextBuf::from_valid(bytes, begin - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_removed_between_parts_of_any_length() {
        for (head, tail) in [(1, 1), (1000, 1), (1, 1000)] {
            let (id, open) = ("x".repeat(head), "y".repeat(tail));
            let mut framer = Framer::new(usize::MAX);
            for elements in [r#"{"a":[]},5"#, "[6]"] {
                let first = if framer.buffer.is_empty() {
                    format!(r#" {{"id":"{id}","params":["first","#)
                } else {
                    // The string that has begun is an element of its own.
                    r#"","#.to_owned()
                };
                framer.push(format!(r#"{first}{elements},"{open}"#).as_bytes());
                assert!(framer.next_text().unwrap().is_none());
                let taken =
                    framer.open_elements(1).unwrap().take_with_buffer(b"of another text".to_vec());
                let expected = if first.starts_with('"') {
                    format!(r#"["{open}",{elements}]"#)
                } else {
                    format!("[{elements}]")
                };
                assert_eq!(taken.as_text().bytes(), expected.as_bytes());
            }
            framer.push(br#""],"z":1}"#);
            let rest = framer.next_text().unwrap().unwrap();
            let expected = format!(r#"{{"id":"{id}","params":["first","{open}"],"z":1}}"#);
            assert_eq!(rest.as_text().bytes(), expected.as_bytes());
        }
    }
}
