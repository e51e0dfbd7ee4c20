//! Parts of a long text, looked at and taken out while the rest arrives.

use std::borrow::Cow;

use super::framer::{Framer, JsonError, Text, TextBuf, lead};
use super::reader::{Reader, Stop};
use super::scanner::{OpenArray, OpenObject, Places};

/// Whole members of an object of objects, such as the rows of a table, in a text whose end has not arrived.
#[derive(Debug)]
pub struct ArrivingRows<'a> {
    framer: &'a mut Framer,
    object: OpenObject,
}

/// Members of an object of objects that have arrived and that nobody has looked at yet, in a text whose end has not
/// arrived. Who decodes them proves them well-formed at the same time.
#[derive(Debug)]
pub struct UnprovenMembers<'a> {
    framer: &'a mut Framer,
    object: OpenObject,
}

/// Whole elements of an array that is a member of the text, all but its first, such as the operations of a request, in a
/// text whose end has not arrived.
#[derive(Debug)]
pub struct ArrivingElements<'a> {
    framer: &'a mut Framer,
    array: OpenArray,
}

impl Framer {
    /// To be asked when there is no complete text: of one that is arriving, what can be looked at now and taken out, if
    /// it is at least so many bytes.
    ///
    /// These are members of an object that is a member of an object which in turn is a member of the text, or an element
    /// of an array that is one: rows of a table in what a monitor reports.
    ///
    /// ```
    /// # use patchbay_schemas::json::Framer;
    /// let mut framer = Framer::new(usize::MAX);
    /// framer.push(br#"{"id":1,"result":{"T":{"one":{"a":[]},"two":5,"thr"#);
    /// assert!(framer.next_text()?.is_none());
    /// let rows = framer.arriving_rows(1).unwrap();
    /// assert_eq!(rows.head()?.as_text().bytes(), br#"{"id":1,"result":{"T":{}}}"#);
    /// assert_eq!(&*rows.name(), b"T");
    /// rows.take(|rows| assert_eq!(rows.bytes(), br#"{"one":{"a":[]},"two":5}"#));
    /// framer.push(br#"ee":0}}}"#);
    /// let rest = framer.next_text()?.unwrap();
    /// assert_eq!(rest.as_text().bytes(), br#"{"id":1,"result":{"T":{"three":0}}}"#);
    /// # Ok::<(), patchbay_schemas::json::JsonError>(())
    /// ```
    pub fn arriving_rows(&mut self, at_least: usize) -> Option<ArrivingRows<'_>> {
        let object = self.scanner.table()?;
        let is_enough = self.start == 0 && object.end - object.begin >= at_least.max(1);
        is_enough.then_some(ArrivingRows {
            framer: self,
            object,
        })
    }

    /// To be asked before there is a complete text, if rows are taken out of the one that is arriving: what has arrived
    /// behind the row that the framer is in, which is looked at first and can be taken as [`arriving_rows`] gives it.
    ///
    /// # Errors
    /// As those of [`next_text`](Self::next_text).
    ///
    /// [`arriving_rows`]: Self::arriving_rows
    ///
    /// ```
    /// # use patchbay_schemas::json::Framer;
    /// let mut framer = Framer::new(usize::MAX);
    /// framer.push(br#"{"id":1,"result":{"T":{"one":1,"two":[],"thr"#);
    /// assert!(framer.next_text()?.is_none());
    /// framer.push(br#"ee":3,"four":4,"five":5"#);
    /// let members = framer.unproven_members()?.unwrap();
    /// let numbers = members.take(|reader| reader.next_member().and_then(|_| reader.integer()));
    /// assert_eq!(numbers, [4]);
    /// framer.push(br#"}}}"#);
    /// let rest = framer.next_text()?.unwrap();
    /// assert_eq!(rest.as_text().bytes(), br#"{"id":1,"result":{"T":{"one":1,"two":[],"three":3,"five":5}}}"#);
    /// # Ok::<(), patchbay_schemas::json::JsonError>(())
    /// ```
    pub fn unproven_members(&mut self) -> Result<Option<UnprovenMembers<'_>>, JsonError> {
        if self.start > 0 || self.scanner.table().is_none() {
            return Ok(None);
        }
        let is_between = self.scanner.scan_member(&self.buffer);
        if !is_between.map_err(|error| error.behind(self.taken))? {
            return Ok(None);
        }
        let object = self.scanner.table();
        Ok(object.map(|object| UnprovenMembers {
            framer: self,
            object,
        }))
    }

    /// The same of the elements, from the second on, of an array that is a member of the text: the operations in the
    /// parameters of a request.
    ///
    /// ```
    /// # use patchbay_schemas::json::Framer;
    /// let mut framer = Framer::new(usize::MAX);
    /// framer.push(br#"{"method":"m","params":["first",{"a":[]},5,tr"#);
    /// assert!(framer.next_text()?.is_none());
    /// let elements = framer.arriving_elements(1).unwrap();
    /// assert_eq!(elements.head()?.as_text().bytes(), br#"{"method":"m","params":["first"]}"#);
    /// assert_eq!(elements.take().as_text().bytes(), br#"[{"a":[]},5]"#);
    /// framer.push(br#"ue],"id":1}"#);
    /// let rest = framer.next_text()?.unwrap();
    /// assert_eq!(rest.as_text().bytes(), br#"{"method":"m","params":["first",true],"id":1}"#);
    /// # Ok::<(), patchbay_schemas::json::JsonError>(())
    /// ```
    pub fn arriving_elements(&mut self, at_least: usize) -> Option<ArrivingElements<'_>> {
        let array = self.scanner.array()?;
        let is_enough = self.start == 0 && array.end - array.begin >= at_least.max(1);
        is_enough.then_some(ArrivingElements {
            framer: self,
            array,
        })
    }

    /// The first bytes of the text that is arriving, as if all that is open there ended with them.
    fn head(&self, len: usize, depth: usize) -> Result<TextBuf, JsonError> {
        let mut head = self.buffer[..len].to_vec();
        head.drain(..lead(&head));
        head.extend(self.scanner.closing(depth));
        TextBuf::parse(head)
    }

    fn member_name(&self, object: OpenObject) -> Cow<'_, [u8]> {
        let mut reader = Reader::new(Text(&self.buffer[object.name..]));
        reader.string().unwrap_or_default()
    }

    /// Takes a piece out of the text that is arriving.
    fn cut_out(&mut self, begin: usize, end: usize) {
        self.buffer.drain(begin..end);
        self.taken += end - begin;
        self.scanner.taken_out(begin, end - begin);
        self.shrink();
    }
}

impl ArrivingRows<'_> {
    /// What has arrived before the object, without what was taken, as if the object had no members and the text ended
    /// with it.
    ///
    /// # Errors
    /// None are known: it is as well-formed as what it is the beginning of.
    pub fn head(&self) -> Result<TextBuf, JsonError> {
        self.framer.head(self.object.begin, self.object.depth)
    }

    /// The object's name.
    pub fn name(&self) -> Cow<'_, [u8]> {
        self.framer.member_name(self.object)
    }

    /// Where the object's members will begin in the text, behind the opening brace.
    pub fn place(&self) -> usize {
        self.object.begin - lead(&self.framer.buffer)
    }

    /// Gives the members to `read`, as an object, and takes them out of the text.
    pub fn take<T>(self, read: impl FnOnce(Text<'_>) -> T) -> T {
        let OpenObject { begin, end, .. } = self.object;
        let framer = self.framer;
        // The comma goes with the members.
        framer.buffer[end] = b'}';
        let result = read(Text(&framer.buffer[begin - 1..=end]));
        framer.cut_out(begin, end + 1);
        result
    }
}

impl UnprovenMembers<'_> {
    /// What of the object was looked at and can be taken.
    pub fn proven(&mut self) -> Option<ArrivingRows<'_>> {
        self.framer.arriving_rows(1)
    }

    /// See [`ArrivingRows::name`].
    pub fn name(&self) -> Cow<'_, [u8]> {
        self.framer.member_name(self.object)
    }

    /// See [`ArrivingRows::place`].
    pub fn place(&self) -> usize {
        self.object.begin - lead(&self.framer.buffer)
    }

    /// Takes members out of the text, one after the other, as long as `read` understands them. The others are left
    /// there, and so is the last one of an object, and all that is behind it.
    pub fn take<T>(self, mut read: impl FnMut(&mut Reader<'_, true>) -> Option<T>) -> Vec<T> {
        let begin = self.framer.scanner.place();
        let mut reader = Reader::proving(&self.framer.buffer[begin..]);
        let (mut members, mut len) = (Vec::new(), 0);
        while let Some(member) = read(&mut reader)
            && reader.pass_comma()
        {
            members.push(member);
            len = reader.place();
        }
        let is_in_part = reader.stopped() == Some(Stop::RanOut);
        let framer = self.framer;
        framer.cut_out(begin, begin + len);
        // Once: however slowly a member comes, it is not looked at again and again.
        let is_first = len > 0 || framer.awaiting_more_than.is_none();
        framer.awaiting_more_than = (is_in_part && is_first).then_some(framer.buffer.len());
        members
    }
}

impl ArrivingElements<'_> {
    /// What has arrived before the elements, as if the array ended behind its first one, and the text with it.
    ///
    /// # Errors
    /// None are known: it is as well-formed as what it is the beginning of.
    pub fn head(&self) -> Result<TextBuf, JsonError> {
        self.framer.head(self.array.begin - 1, OpenArray::DEPTH)
    }

    /// Where the second element will be in the text, behind the comma.
    pub fn place(&self) -> usize {
        self.array.begin - lead(&self.framer.buffer)
    }

    /// Takes the elements out of the text: an array.
    pub fn take(self) -> TextBuf {
        let OpenArray { begin, end } = self.array;
        let mut bytes = Vec::with_capacity(end - begin + 2);
        bytes.push(b'[');
        bytes.extend_from_slice(&self.framer.buffer[begin..end]);
        bytes.push(b']');
        self.framer.cut_out(begin, end + 1);
        TextBuf {
            bytes,
            places: Places::default(),
        }
    }
}
