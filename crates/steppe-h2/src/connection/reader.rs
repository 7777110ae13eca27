//! Bytes to frames. Spec: RFC 9113 §4.1.
//!
//! Content and field blocks are handed on in pieces, as they come; everything else that has a meaning is at most
//! [`ITEM_BYTES`] long and gathered here, so that no buffer outlives the call that it was read in.
//!
//! Invariant: each byte is looked at once, whatever the transport cuts the bytes into.

use crate::error::{ErrorCode, Violation};
use crate::frame::{FrameHeader, FrameType, PREFACE, flag};
use crate::limits::{FRAME_HEADER_BYTES, PRIORITY_BYTES_MAX};
use crate::role::Role;

/// The longest item that is gathered: PRIORITY_UPDATE with its value.
const ITEM_BYTES: usize = 4 + PRIORITY_BYTES_MAX;

const _: () = assert!(ITEM_BYTES >= PREFACE.len());

/// A part of the byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// The header of a frame of DATA, HEADERS or CONTINUATION.
    Begin(FrameHeader),
    /// The next octets of the input, so many, are content.
    Content(usize),
    /// The next octets of the input, so many, are of a field block.
    Fragment(usize),
    /// The frame is over.
    End(FrameHeader),
    /// The priority fields of HEADERS name its own stream (RFC 7540 §5.3.1).
    SelfDependency,
    /// One setting.
    Setting(u16, u32),
    /// A SETTINGS frame is over.
    SettingsEnd,
    /// An acknowledgment of SETTINGS.
    SettingsAck,
    /// A frame whose payload is a few octets, or of which no more has a meaning.
    Small(FrameHeader, [u8; 8]),
    /// PRIORITY_UPDATE of this stream; [`Reader::priority_value`] has its value.
    PriorityUpdate(u32),
}

/// Reads the frames of a peer.
#[derive(Debug)]
pub(super) struct Reader {
    item: [u8; ITEM_BYTES],
    filled: usize,
    /// Length of the value of the last PRIORITY_UPDATE.
    priority_bytes: usize,
    step: Step,
    sender: Role,
    /// No frame has come.
    is_first: bool,
}

/// The part of the byte stream that comes next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Preface,
    FrameHeader,
    PadLength(Frame),
    /// The fields of a priority of RFC 7540, in HEADERS.
    PriorityFields(Frame),
    /// Content, or a fragment of a field block.
    Body(Frame),
    Setting(Frame),
    Small(Frame),
    PriorityUpdate(Frame),
    /// Padding, and payload without a meaning.
    Skip(Frame),
    /// The frame is over and was not reported.
    Over(FrameHeader),
}

/// A frame in part.
#[derive(Debug, Clone, Copy)]
struct Frame {
    header: FrameHeader,
    /// Octets of the payload that are to come, without padding.
    left: usize,
    padding: usize,
}

impl Reader {
    /// A reader of a client's frames, behind its preface.
    pub(super) fn of_client() -> Self {
        Self::new(Step::Preface, Role::Client)
    }

    /// A reader of a server's frames.
    pub(super) fn of_server() -> Self {
        Self::new(Step::FrameHeader, Role::Server)
    }

    fn new(step: Step, sender: Role) -> Self {
        Self {
            item: [0; ITEM_BYTES],
            filled: 0,
            priority_bytes: 0,
            step,
            sender,
            is_first: true,
        }
    }

    /// The value of a PRIORITY_UPDATE whose token was the last one. It is large beside all tokens, which are moved often.
    pub(super) fn priority_value(&self) -> &[u8] {
        &self.item[4..4 + self.priority_bytes]
    }

    /// True between two frames.
    #[cfg(test)]
    fn is_between_frames(&self) -> bool {
        matches!(self.step, Step::FrameHeader) && self.filled == 0
    }

    /// Octets that the frame in progress has yet.
    pub(super) fn left(&self) -> usize {
        match self.step {
            Step::Preface | Step::FrameHeader | Step::Over(_) => 0,
            Step::PadLength(frame)
            | Step::PriorityFields(frame)
            | Step::Body(frame)
            | Step::Setting(frame)
            | Step::Small(frame)
            | Step::PriorityUpdate(frame)
            | Step::Skip(frame) => (frame.left + frame.padding).saturating_sub(self.filled),
        }
    }

    /// The next token, where `input` has it; the number of octets of `input` that were consumed. Those of content and
    /// of fragments are not among them.
    ///
    /// # Errors
    /// A violation of framing.
    pub(super) fn next(&mut self, input: &[u8]) -> Result<(Option<Token>, usize), Violation> {
        let mut used = 0;
        loop {
            let (token, count) = self.step(&input[used..])?;
            used += count;
            match token {
                Progress::Token(token) => return Ok((Some(token), used)),
                Progress::Lacking => return Ok((None, used)),
                Progress::Next => {}
            }
        }
    }

    fn step(&mut self, input: &[u8]) -> Result<(Progress, usize), Violation> {
        match self.step {
            Step::Preface => self.preface(input),
            Step::FrameHeader => self.frame_header(input),
            Step::PadLength(frame) => self.pad_length(frame, input),
            Step::PriorityFields(frame) => {
                let (is_whole, used) = self.gather(PRIORITY_FIELDS_BYTES, input);
                match is_whole {
                    true => Ok((self.take_priority_fields(frame), used)),
                    false => Ok((Progress::Lacking, used)),
                }
            }
            Step::Body(frame) => Ok((self.body(frame, input), 0)),
            Step::Setting(frame) => Ok(self.setting(frame, input)),
            Step::Small(frame) => Ok(self.small(frame, input)),
            Step::PriorityUpdate(frame) => Ok(self.priority_update(frame, input)),
            Step::Skip(frame) => Ok(self.skip(frame, input)),
            Step::Over(header) => {
                self.step = Step::FrameHeader;
                Ok((Progress::Token(Token::End(header)), 0))
            }
        }
    }

    /// Gathers an item of `len` octets: true when it is whole, and the octets of `input` that it took.
    fn gather(&mut self, len: usize, input: &[u8]) -> (bool, usize) {
        let taken = (len - self.filled).min(input.len());
        self.item[self.filled..self.filled + taken].copy_from_slice(&input[..taken]);
        self.filled += taken;
        let is_whole = self.filled == len;
        if is_whole {
            self.filled = 0;
        }
        (is_whole, taken)
    }

    fn preface(&mut self, input: &[u8]) -> Result<(Progress, usize), Violation> {
        let (is_whole, used) = self.gather(PREFACE.len(), input);
        let seen = if is_whole { PREFACE.len() } else { self.filled };
        if self.item[..seen] != PREFACE[..seen] {
            return Err(Violation::protocol("the connection preface is missing"));
        }
        if is_whole {
            self.step = Step::FrameHeader;
            return Ok((Progress::Next, used));
        }
        Ok((Progress::Lacking, used))
    }

    fn frame_header(&mut self, input: &[u8]) -> Result<(Progress, usize), Violation> {
        let (is_whole, used) = self.gather(FRAME_HEADER_BYTES, input);
        if !is_whole {
            return Ok((Progress::Lacking, used));
        }
        let octets = self
            .item
            .first_chunk()
            .expect("an item is longer than a header");
        let header = FrameHeader::read(*octets);
        let is_of_settings = header.frame_type == FrameType::Settings && !header.has(flag::ACK);
        // §3.4. Of a server without HTTP/2, the octets are those of another protocol.
        if std::mem::take(&mut self.is_first) && !is_of_settings {
            return Err(Violation::protocol("the first frame is not SETTINGS"));
        }
        header.check()?;
        // RFC 9218 §7.1.
        if self.sender == Role::Server && header.frame_type == FrameType::PriorityUpdate {
            return Err(Violation::protocol("a server sends no PRIORITY_UPDATE"));
        }
        let left = header.length as usize;
        let frame = Frame {
            header,
            left,
            padding: 0,
        };
        self.step = match header.frame_type {
            FrameType::Data | FrameType::Headers if header.has(flag::PADDED) => {
                Step::PadLength(frame)
            }
            FrameType::Headers if header.has(flag::PRIORITY) => priority_fields(frame)?,
            FrameType::Data | FrameType::Headers | FrameType::Continuation => Step::Body(frame),
            FrameType::Settings if header.has(flag::ACK) => {
                self.step = Step::FrameHeader;
                return Ok((Progress::Token(Token::SettingsAck), used));
            }
            FrameType::Settings => Step::Setting(frame),
            FrameType::Priority
            | FrameType::RstStream
            | FrameType::Ping
            | FrameType::Goaway
            | FrameType::WindowUpdate => Step::Small(frame),
            FrameType::PriorityUpdate if left <= ITEM_BYTES => Step::PriorityUpdate(frame),
            FrameType::PriorityUpdate | FrameType::PushPromise | FrameType::Unknown(_) => {
                self.step = Step::Skip(frame);
                return Ok((Progress::Token(Token::Small(header, [0; 8])), used));
            }
        };
        let progress = match header.frame_type {
            FrameType::Data | FrameType::Headers | FrameType::Continuation => {
                Progress::Token(Token::Begin(header))
            }
            _ => Progress::Next,
        };
        Ok((progress, used))
    }

    fn pad_length(&mut self, frame: Frame, input: &[u8]) -> Result<(Progress, usize), Violation> {
        if frame.left == 0 {
            return Err(Violation::protocol("the padding is longer than its frame"));
        }
        let Some(&padding) = input.first() else {
            return Ok((Progress::Lacking, 0));
        };
        let padding = usize::from(padding);
        let Some(left) = (frame.left - 1).checked_sub(padding) else {
            return Err(Violation::protocol("the padding is longer than its frame"));
        };
        let frame = Frame {
            left,
            padding,
            ..frame
        };
        let has_priority =
            frame.header.frame_type == FrameType::Headers && frame.header.has(flag::PRIORITY);
        self.step = match has_priority {
            true => priority_fields(frame)?,
            false => Step::Body(frame),
        };
        Ok((Progress::Next, 1))
    }

    fn take_priority_fields(&mut self, frame: Frame) -> Progress {
        let left = frame.left - PRIORITY_FIELDS_BYTES;
        self.step = Step::Body(Frame { left, ..frame });
        let [s3, s2, s1, s0, ..] = self.item;
        let dependency = u32::from_be_bytes([s3 & 0x7f, s2, s1, s0]);
        match dependency == frame.header.stream {
            true => Progress::Token(Token::SelfDependency),
            false => Progress::Next,
        }
    }

    fn body(&mut self, frame: Frame, input: &[u8]) -> Progress {
        let taken = frame.left.min(input.len());
        if taken == 0 && frame.left > 0 {
            return Progress::Lacking;
        }
        let left = frame.left - taken;
        let rest = Frame { left, ..frame };
        self.step = match (left, frame.padding) {
            (0, 0) => Step::Over(frame.header),
            (0, padding) => Step::Skip(Frame {
                left: padding,
                padding: 0,
                ..frame
            }),
            _ => Step::Body(rest),
        };
        match (taken, frame.header.frame_type) {
            (0, _) => Progress::Next,
            (_, FrameType::Data) => Progress::Token(Token::Content(taken)),
            _ => Progress::Token(Token::Fragment(taken)),
        }
    }

    fn setting(&mut self, frame: Frame, input: &[u8]) -> (Progress, usize) {
        if frame.left == 0 {
            self.step = Step::FrameHeader;
            return (Progress::Token(Token::SettingsEnd), 0);
        }
        let (is_whole, used) = self.gather(6, input);
        if !is_whole {
            return (Progress::Lacking, used);
        }
        let [i1, i0, v3, v2, v1, v0, ..] = self.item;
        let left = frame.left - 6;
        self.step = Step::Setting(Frame { left, ..frame });
        let setting = Token::Setting(
            u16::from_be_bytes([i1, i0]),
            u32::from_be_bytes([v3, v2, v1, v0]),
        );
        (Progress::Token(setting), used)
    }

    fn small(&mut self, frame: Frame, input: &[u8]) -> (Progress, usize) {
        let len = frame.left.min(8);
        let (is_whole, used) = self.gather(len, input);
        if !is_whole {
            return (Progress::Lacking, used);
        }
        let mut octets = [0; 8];
        octets[..len].copy_from_slice(&self.item[..len]);
        self.step = match frame.left - len {
            0 => Step::FrameHeader,
            // Debug data of GOAWAY.
            left => Step::Skip(Frame { left, ..frame }),
        };
        (Progress::Token(Token::Small(frame.header, octets)), used)
    }

    fn priority_update(&mut self, frame: Frame, input: &[u8]) -> (Progress, usize) {
        let (is_whole, used) = self.gather(frame.left, input);
        if !is_whole {
            return (Progress::Lacking, used);
        }
        let [s3, s2, s1, s0, ..] = self.item;
        let stream = u32::from_be_bytes([s3 & 0x7f, s2, s1, s0]);
        self.priority_bytes = frame.left - 4;
        self.step = Step::FrameHeader;
        (Progress::Token(Token::PriorityUpdate(stream)), used)
    }

    fn skip(&mut self, frame: Frame, input: &[u8]) -> (Progress, usize) {
        let taken = frame.left.min(input.len());
        let left = frame.left - taken;
        let is_reported = matches!(
            frame.header.frame_type,
            FrameType::Data | FrameType::Headers | FrameType::Continuation
        );
        self.step = match is_reported {
            _ if left > 0 => {
                self.step = Step::Skip(Frame { left, ..frame });
                return (Progress::Lacking, taken);
            }
            true => Step::Over(frame.header),
            false => Step::FrameHeader,
        };
        (Progress::Next, taken)
    }
}

/// Octets of the priority fields of HEADERS (RFC 9113 §6.2).
const PRIORITY_FIELDS_BYTES: usize = 5;

fn priority_fields(frame: Frame) -> Result<Step, Violation> {
    match frame.left < PRIORITY_FIELDS_BYTES {
        true => Err(Violation::connection(
            ErrorCode::FRAME_SIZE_ERROR,
            "HEADERS is shorter than its priority fields",
        )),
        false => Ok(Step::PriorityFields(frame)),
    }
}

/// The result of one step.
#[derive(Debug)]
enum Progress {
    Token(Token),
    /// The next step follows.
    Next,
    /// The input is used up.
    Lacking,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::write::{ControlFrame, frame, setting};

    /// Tokens of `bytes`, which come in pieces of `piece` octets. Content and fragments are put together.
    fn tokens(bytes: &[u8], piece: usize) -> Result<Vec<String>, Violation> {
        let mut reader = Reader::of_client();
        let mut tokens: Vec<String> = Vec::new();
        let mut body = Vec::new();
        for mut input in bytes.chunks(piece) {
            loop {
                let (token, used) = reader.next(input)?;
                input = &input[used..];
                match token {
                    None => break,
                    Some(Token::Content(count) | Token::Fragment(count)) => {
                        body.extend_from_slice(&input[..count]);
                        input = &input[count..];
                    }
                    Some(Token::End(header)) => {
                        let body = String::from_utf8_lossy(&std::mem::take(&mut body)).into_owned();
                        tokens.push(format!("{:?} {} {body}", header.frame_type, header.stream));
                    }
                    Some(Token::Begin(_)) => {}
                    Some(Token::PriorityUpdate(stream)) => {
                        let value = String::from_utf8_lossy(reader.priority_value()).into_owned();
                        tokens.push(format!("priority of {stream}: {value}"));
                    }
                    Some(Token::Small(header, octets)) => {
                        tokens.push(format!("{:?} {octets:?}", header.frame_type));
                    }
                    Some(token) => tokens.push(format!("{token:?}")),
                }
            }
            assert!(input.is_empty());
        }
        assert!(reader.is_between_frames());
        Ok(tokens)
    }

    #[test]
    fn frames_are_read_in_pieces_of_any_size() {
        let priority_update = [&[0, 0, 0, 3][..], b"u=1"].concat();
        let bytes = [
            PREFACE.to_vec(),
            frame(
                FrameType::Settings,
                0,
                0,
                &[setting(3, 100), setting(4, 1)].concat(),
            ),
            frame(FrameType::Settings, 0, 0, &[]),
            frame(FrameType::Settings, flag::ACK, 0, &[]),
            frame(
                FrameType::Headers,
                flag::PADDED | flag::PRIORITY,
                1,
                b"\x03.....block\0\0\0",
            ),
            frame(FrameType::Headers, 0, 3, b""),
            frame(FrameType::Continuation, flag::END_HEADERS, 1, b"more"),
            frame(FrameType::Data, flag::PADDED, 1, b"\x02content\0\0"),
            frame(FrameType::Data, 0, 1, b"content"),
            frame(FrameType::Data, flag::PADDED, 1, b"\0"),
            frame(FrameType::Data, 0, 1, b""),
            ControlFrame::ping(*b"12345678").octets().to_vec(),
            frame(FrameType::Goaway, 0, 0, b"1234abcddebug data"),
            frame(FrameType::PriorityUpdate, 0, 0, &priority_update),
            frame(FrameType::PriorityUpdate, 0, 0, &[0; 65]),
            frame(FrameType::Unknown(0xee), 0xff, 9, b"unknown"),
            ControlFrame::window_update(1, 7).octets().to_vec(),
            frame(FrameType::Priority, 0, 1, b"abcde"),
        ]
        .concat();
        let whole = tokens(&bytes, bytes.len()).expect("it is valid");
        let expected = expect_test::expect![[r#"
            Setting(3, 100)
            Setting(4, 1)
            SettingsEnd
            SettingsEnd
            SettingsAck
            Headers 1 block
            Headers 3 
            Continuation 1 more
            Data 1 content
            Data 1 content
            Data 1 
            Data 1 
            Ping [49, 50, 51, 52, 53, 54, 55, 56]
            Goaway [49, 50, 51, 52, 97, 98, 99, 100]
            priority of 3: u=1
            PriorityUpdate [0, 0, 0, 0, 0, 0, 0, 0]
            Unknown(238) [0, 0, 0, 0, 0, 0, 0, 0]
            WindowUpdate [0, 0, 0, 7, 0, 0, 0, 0]
            Priority [97, 98, 99, 100, 101, 0, 0, 0]"#]];
        expected.assert_eq(&whole.join("\n"));
        for piece in 1..bytes.len() {
            assert_eq!(
                tokens(&bytes, piece).expect("it is valid"),
                whole,
                "{piece}"
            );
        }
    }

    #[test]
    fn padding_fits_into_its_frame() {
        for (flags, payload) in [
            (flag::PADDED, &b""[..]),
            (flag::PADDED, b"\x02a"),
            (flag::PADDED | flag::PRIORITY, b"\x01....."),
            (flag::PRIORITY, b"...."),
        ] {
            let bytes = [
                PREFACE.to_vec(),
                frame(FrameType::Settings, 0, 0, &[]),
                frame(FrameType::Headers, flags, 1, payload),
            ]
            .concat();
            let mut reader = Reader::of_client();
            let mut input = &bytes[..];
            let read = loop {
                match reader.next(input) {
                    Ok((Some(Token::Begin(_) | Token::SettingsEnd), used)) => {
                        input = &input[used..];
                    }
                    other => break other,
                }
            };
            assert!(read.is_err(), "{flags:#x} {payload:?}");
        }
    }

    #[test]
    fn another_preface_is_refused_at_its_first_wrong_octet() {
        let mut reader = Reader::of_client();
        assert!(reader.next(b"PRI * HTTP/1").is_err());
        let mut reader = Reader::of_client();
        assert!(reader.next(b"GET").is_err());
    }
}
