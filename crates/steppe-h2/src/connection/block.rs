//! The field block that is being received. Spec: RFC 9113 §4.3, §10.5.1.
//!
//! Field lines go into the section of the connection's holder for as long as it has room and the limits allow. From
//! then on they are decoded into scratch memory of the connection, for the sake of the dynamic table alone.

use steppe_mem::{Buffer, OverBudget, Reservation};

use crate::error::{ErrorCode, Violation};
use crate::hpack::{Decoder, FieldSink, Indexing, Pieces};
use crate::limits::{BLOCK_FRAMES_MAX, SCRATCH_BYTES, SECTION_FACTOR_MAX};
use crate::message::{SectionCheck, SectionKind};
use crate::settings::LocalSettings;
use crate::stream_id::StreamId;

/// A field section that is being received, in memory of the connection's holder.
pub trait Section: FieldSink {
    /// True when [`FieldSink::room`] has room, of `bytes` at best; memory is taken here.
    fn has_room(&mut self, bytes: usize) -> bool;

    /// Name and value of the field line in progress, as far as they came; no value where the name is not whole.
    fn unfinished(&self) -> (&[u8], Option<&[u8]>);
}

/// The section was received in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// It is larger than the limits allow.
    TooLarge,
    /// Its holder had no room.
    NoRoom,
}

/// A field block in progress.
#[derive(Debug)]
pub(super) struct Block<B> {
    pub(super) stream: StreamId,
    pub(super) kind: SectionKind,
    pub(super) ends_stream: bool,
    pub(super) is_self_dependent: bool,
    pub(super) target: Target<B>,
    pub(super) check: SectionCheck,
    pub(super) truncation: Option<Truncation>,
    /// Its section was reported, and waits to be taken.
    pub(super) is_whole: bool,
    frames: u32,
    section_bytes: usize,
    lines: usize,
    scratch: Option<Scratch>,
}

/// The parts of a connection that decoding needs.
pub(super) struct FieldContext<'a> {
    pub(super) decoder: &'a mut Decoder,
    pub(super) settings: &'a LocalSettings,
    pub(super) reserve: &'a mut Reservation,
}

/// The place that field lines go to.
#[derive(Debug)]
pub(super) enum Target<B> {
    /// The holder has not decided: nothing is decoded.
    Undecided,
    Kept(B),
    /// They are dropped; the stream gets RST_STREAM with this code at the end of the block, for an error of the peer's.
    Dropped(Option<ErrorCode>),
    /// The same by our decision.
    Refused(ErrorCode),
}

/// Memory for one field line that is not kept.
#[derive(Debug)]
struct Scratch {
    line: Buffer,
    name_bytes: usize,
    /// The field line is over: the next one takes its place.
    is_over: bool,
}

impl<B: Section> Block<B> {
    pub(super) fn new(stream: StreamId, kind: SectionKind, target: Target<B>) -> Self {
        Self {
            stream,
            kind,
            ends_stream: false,
            is_self_dependent: false,
            target,
            check: SectionCheck::new(kind),
            truncation: None,
            is_whole: false,
            frames: 0,
            section_bytes: 0,
            lines: 0,
            scratch: None,
        }
    }

    /// Counts a frame of the block.
    ///
    /// # Errors
    /// ENHANCE_YOUR_CALM where there are too many.
    pub(super) fn count_frame(&mut self) -> Result<(), Violation> {
        self.frames += 1;
        match self.frames > BLOCK_FRAMES_MAX {
            true => Err(Violation::connection(
                ErrorCode::ENHANCE_YOUR_CALM,
                "a field block has too many frames",
            )),
            false => Ok(()),
        }
    }

    /// Decodes a fragment.
    ///
    /// # Errors
    /// COMPRESSION_ERROR, and ENHANCE_YOUR_CALM of a section far above the limit or without memory to drop it in.
    pub(super) fn decode(
        &mut self,
        fragment: &[u8],
        context: FieldContext<'_>,
    ) -> Result<(), Violation> {
        let FieldContext {
            decoder,
            settings,
            reserve,
        } = context;
        let mut lines = Lines {
            block: self,
            settings,
            reserve,
            is_far_too_large: false,
            is_without_scratch: false,
        };
        let decoded = decoder.decode(fragment, &mut lines);
        let calm = |reason| Err(Violation::connection(ErrorCode::ENHANCE_YOUR_CALM, reason));
        if lines.is_without_scratch {
            return calm("there is no memory to decode a field block");
        }
        if lines.is_far_too_large {
            return calm("a field section is far above its limit");
        }
        decoded.map_err(|_| {
            let reason = "a field block can't be decoded";
            Violation::connection(ErrorCode::COMPRESSION_ERROR, reason)
        })
    }

    /// Gives the scratch memory back.
    pub(super) fn release(&mut self, reserve: &mut Reservation) {
        if let Some(scratch) = self.scratch.take() {
            reserve.join(scratch.line.into_charge());
        }
    }
}

/// RFC 9113 §6.5.2: octets that a field line counts beside its text.
const LINE_BYTES: usize = 32;

/// A sink before the section, which counts and checks field lines.
struct Lines<'a, B> {
    block: &'a mut Block<B>,
    settings: &'a LocalSettings,
    reserve: &'a mut Reservation,
    is_far_too_large: bool,
    is_without_scratch: bool,
}

impl<B: Section> Lines<'_, B> {
    /// Drops this field line and all that follow.
    fn truncate(&mut self, why: Truncation) {
        if self.block.truncation.is_some() {
            return;
        }
        self.block.truncation = Some(why);
        let Target::Kept(section) = &self.block.target else {
            return;
        };
        let (name, value) = section.unfinished();
        if name.is_empty() && value.is_none() {
            return;
        }
        match Scratch::take(self.reserve) {
            Ok(mut scratch) => {
                scratch.begin(name, value);
                self.block.scratch = Some(scratch);
            }
            Err(_) => self.is_without_scratch = true,
        }
    }

    /// The section, as long as field lines go there.
    fn kept(&mut self) -> Option<&mut B> {
        match &mut self.block.target {
            Target::Kept(section) if self.block.truncation.is_none() => Some(section),
            Target::Kept(_) | Target::Undecided | Target::Dropped(_) | Target::Refused(_) => None,
        }
    }

    fn is_over_limit(&self, unfinished: usize) -> bool {
        let bytes = self.block.section_bytes + unfinished;
        bytes > self.settings.section_bytes_max as usize
    }

    fn scratch(&mut self) -> Option<&mut Scratch> {
        if self.block.scratch.is_none() {
            match Scratch::take(self.reserve) {
                Ok(scratch) => self.block.scratch = Some(scratch),
                Err(OverBudget { .. }) => self.is_without_scratch = true,
            }
        }
        self.block.scratch.as_mut()
    }
}

impl<B: Section> FieldSink for Lines<'_, B> {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        // The connection ends by it. Indexes of an octet may name lines of the table's size: the rest of the fragment
        // is not copied.
        if self.is_far_too_large {
            return None;
        }
        if let Some(section) = self.kept() {
            let (name, value) = section.unfinished();
            let unfinished = name.len() + value.map_or(0, <[u8]>::len);
            let has_room = section.has_room(bytes);
            if self.is_over_limit(unfinished) {
                self.truncate(Truncation::TooLarge);
            } else if !has_room {
                self.truncate(Truncation::NoRoom);
            }
        }
        if self.kept().is_some() {
            return self.kept()?.room(bytes);
        }
        let room = self.scratch()?.begun().line.spare_mut();
        let bytes = bytes.min(room.len());
        Some(&mut room[..bytes])
    }

    fn advance(&mut self, bytes: usize) {
        if let Some(section) = self.kept() {
            section.advance(bytes);
        } else if let Some(scratch) = &mut self.block.scratch {
            scratch.line.advance(bytes);
        }
    }

    fn end_name(&mut self) {
        if let Some(section) = self.kept() {
            section.end_name();
        } else if let Some(scratch) = self.scratch() {
            scratch.begun().end_name();
        }
    }

    fn end_field(&mut self, indexing: Indexing) {
        let is_kept = self.kept().is_some();
        let block = &mut *self.block;
        match &mut block.target {
            Target::Kept(section) if is_kept => {
                section.end_field(indexing);
                let (name, value) = section.last();
                block.check.line(name, value);
            }
            Target::Kept(_) | Target::Undecided | Target::Dropped(_) | Target::Refused(_) => {
                if let Some(scratch) = &mut block.scratch {
                    // Status and length count, although they are not kept.
                    let (name, value) = scratch.last();
                    block.check.line(name, value);
                    scratch.is_over = true;
                }
            }
        }
        let (name, value) = self.last();
        self.count(name.len() + value.len());
        if is_kept && self.is_over_limit(0) {
            self.block.truncation.get_or_insert(Truncation::TooLarge);
        }
    }

    fn take_line(&mut self, name: Pieces<'_>, value: Pieces<'_>) -> bool {
        let text_bytes = name.bytes() + value.bytes();
        let has_limits = !self.is_over_limit(text_bytes + LINE_BYTES)
            && self.block.lines < self.settings.section_lines_max as usize;
        let Some(section) = self.kept().filter(|_| has_limits) else {
            return false;
        };
        if !section.take_line(name, value) {
            return false;
        }
        if let Target::Kept(section) = &self.block.target {
            let (name, value) = section.last();
            self.block.check.line(name, value);
        }
        self.count(text_bytes);
        true
    }

    fn last(&self) -> (&[u8], &[u8]) {
        match (&self.block.target, &self.block.scratch) {
            (_, Some(scratch)) => scratch.last(),
            (Target::Kept(section), None) => section.last(),
            _ => (&[], &[]),
        }
    }

    fn lost(&mut self, bytes: usize) {
        if let Some(scratch) = &mut self.block.scratch {
            scratch.is_over = true;
        }
        self.count(bytes);
    }
}

impl<B> Lines<'_, B> {
    /// Counts a field line.
    fn count(&mut self, text_bytes: usize) {
        let block = &mut *self.block;
        block.section_bytes = block.section_bytes.saturating_add(text_bytes + LINE_BYTES);
        block.lines += 1;
        if block.lines > self.settings.section_lines_max as usize {
            block.truncation.get_or_insert(Truncation::TooLarge);
        }
        let most = self.settings.section_bytes_max as usize * SECTION_FACTOR_MAX;
        self.is_far_too_large |= block.section_bytes > most;
    }
}

impl Scratch {
    fn take(reserve: &mut Reservation) -> Result<Self, OverBudget> {
        Ok(Self {
            line: Buffer::take_of(reserve, SCRATCH_BYTES)?,
            name_bytes: 0,
            is_over: false,
        })
    }

    /// Begins with a field line of which some has come.
    fn begin(&mut self, name: &[u8], value: Option<&[u8]>) {
        self.put(name);
        if let Some(value) = value {
            self.end_name();
            self.put(value);
        }
    }

    /// Adds as much as there is room for: a field line above it is no entry of the dynamic table.
    fn put(&mut self, bytes: &[u8]) {
        let fitting = bytes.len().min(self.line.spare());
        let put = self.line.put(&bytes[..fitting]);
        put.expect("it was cut to the room");
    }

    /// The scratch with the field line in progress, which may be a new one.
    fn begun(&mut self) -> &mut Self {
        if std::mem::take(&mut self.is_over) {
            self.line.clear();
            self.name_bytes = 0;
        }
        self
    }

    fn end_name(&mut self) {
        self.name_bytes = self.line.len();
    }

    fn last(&self) -> (&[u8], &[u8]) {
        let name = self.name_bytes.min(self.line.len());
        self.line.filled().split_at(name)
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;
    use crate::connection::tests::peer::Text;

    /// An octet may name a line of 4 KiB: behind the limit that ends the connection, none is copied.
    #[test]
    fn lines_far_above_the_limit_are_not_copied() {
        let budget = Budget::new(1 << 20);
        let mut reserve = (budget.root().lease())
            .try_reserve(2 * SCRATCH_BYTES)
            .expect("room");
        let mut block = Block::<Text>::new(
            StreamId(1),
            SectionKind::Request,
            Target::Refused(ErrorCode::CANCEL),
        );
        let settings = LocalSettings {
            concurrent_streams_max: 1,
            section_bytes_max: 1000,
            section_lines_max: 50,
        };
        // A literal of 4,064 octets that becomes an entry, then ":method GET" (RFC 7541 §6.2.1, §6.1).
        let literal = [0x40, 1, b'a', 0x7f, 0xe0, 0x1e];
        let fragment = [&literal[..], &[b'v'; 4_063], &[0x82]].concat();
        let context = FieldContext {
            decoder: &mut Decoder::new(4_096),
            settings: &settings,
            reserve: &mut reserve,
        };
        let error = block
            .decode(&fragment, context)
            .expect_err("it is far above");
        assert!(
            matches!(error, Violation::Connection(error) if error.code == ErrorCode::ENHANCE_YOUR_CALM)
        );
        let (name, value) = block.scratch.as_ref().expect("it was needed").last();
        assert_eq!((name, value.len()), (&b"a"[..], 4_063));
    }
}
