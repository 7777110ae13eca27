//! A sink that keeps what it has room for. The fuzz target has it too.

use steppe_h2::hpack::{DynamicTable, FieldSink, Indexing, Pieces};

/// Name and value of a field line.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Keeps field lines, as far as it has room.
#[derive(Debug)]
pub struct Sink {
    pub lines: Vec<(Pair, Indexing)>,
    /// Bytes of the field lines that were lost.
    pub lost: Vec<usize>,
    /// Longest piece that it has room for at once.
    piece: usize,
    /// Bytes that it keeps, of all field lines.
    left: usize,
    name: Option<Vec<u8>>,
    string: Vec<u8>,
    room: Vec<u8>,
    is_refused: bool,
}

impl Sink {
    pub fn new() -> Self {
        Self::limited(usize::MAX, usize::MAX)
    }

    pub fn limited(piece: usize, left: usize) -> Self {
        Self {
            lines: Vec::new(),
            lost: Vec::new(),
            piece,
            left,
            name: None,
            string: Vec::new(),
            room: Vec::new(),
            is_refused: false,
        }
    }
}

impl FieldSink for Sink {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        assert!(
            bytes > 0 && !self.is_refused,
            "a call that no decoder makes"
        );
        let room = bytes.min(self.piece).min(self.left);
        self.is_refused = room == 0;
        self.room = vec![0; room];
        // Room of no bytes is as none.
        (room > 0 || self.piece == 0).then_some(&mut self.room)
    }

    fn advance(&mut self, bytes: usize) {
        assert!(
            bytes > 0 && !self.is_refused,
            "a call that no decoder makes"
        );
        self.left -= bytes;
        self.string.extend(&self.room[..bytes]);
        self.room.clear();
    }

    fn end_name(&mut self) {
        assert!(self.name.is_none() && !self.is_refused);
        self.name = Some(std::mem::take(&mut self.string));
    }

    fn end_field(&mut self, indexing: Indexing) {
        assert!(!self.is_refused);
        let name = self.name.take().expect("the name has ended");
        let value = std::mem::take(&mut self.string);
        self.lines.push(((name, value), indexing));
    }

    fn last(&self) -> (&[u8], &[u8]) {
        let ((name, value), _) = self.lines.last().expect("one has ended");
        (name, value)
    }

    fn lost(&mut self, bytes: usize) {
        assert!(std::mem::take(&mut self.is_refused));
        (self.name, self.string) = (None, Vec::new());
        self.lost.push(bytes);
    }
}

/// The entries of a table, newest first.
pub fn entries(table: &DynamicTable) -> Vec<Pair> {
    let whole = |string: Pieces<'_>| string.0.concat();
    let entry = |at| {
        let (name, value) = table.entry(at).expect("it is there");
        (whole(name), whole(value))
    };
    (0..table.len()).map(entry).collect()
}
