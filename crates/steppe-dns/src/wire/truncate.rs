//! Truncation of a written response.

use super::code::Rtype;
use super::header::Flags;
use super::message::Message;
use super::record::Section;
use super::write::set_number;

/// Truncates a response to its question and OPT record, and sets TC: RFC 2181 §9. Returns
/// its length; `None` if it is not a message with one question.
#[must_use]
pub fn truncate(response: &mut [u8]) -> Option<usize> {
    let message = Message::parse(response).ok()?;
    let question_end = message.question().end();
    let flags = message.header().flags.0;
    let opt = message
        .records(Section::Additional)
        .find(|record| record.rtype == Rtype::OPT)
        .map(|record| record.owner_at..record.end());
    let mut len = question_end;
    if let Some(opt) = opt.clone() {
        len += opt.len();
        response.copy_within(opt, question_end);
    }
    set_number(response, 2, flags | Flags::TC);
    set_number(response, 6, 0);
    set_number(response, 8, 0);
    set_number(response, 10, u16::from(opt.is_some()));
    Some(len)
}
