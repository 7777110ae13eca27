//! Queries of clients: accepted ones, and rejected or ignored ones.

use super::code::{Opcode, Rcode, Rtype};
use super::edns::{EdnsOptions, Opt, OptWriter, OptionCode, write_option};
use super::error::WireError;
use super::header::{Flags, HEADER_BYTES, Header};
use super::message::{Message, Question};
use super::write::{Full, Writer};
use crate::limits::{CLIENT_QUERY_BYTES_MAX, UDP_PAYLOAD_BYTES, UDP_PAYLOAD_BYTES_MIN};

/// A valid query of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientQuery<'a> {
    message: Message<'a>,
    options: EdnsOptions<'a>,
}

/// Handling of a message that is not a valid query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// No response: the message is a response itself (two servers could loop), or has no header.
    Ignore,
    /// A response with this code, by [`write_rejection`].
    Respond(Rcode),
}

impl<'a> ClientQuery<'a> {
    /// Parses a query.
    ///
    /// # Errors
    /// [`Rejection`]. FORMERR: not one question (RFC 9619 §4), records in the answer or authority section, or
    /// malformed EDNS. BADVERS: an EDNS version other than 0 (RFC 6891 §6.1.3). NOTIMP: another
    /// opcode, or a zone transfer (RFC 5936 §2.2.1).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Rejection> {
        let header = Header::read(bytes).map_err(|_| Rejection::Ignore)?;
        if header.flags.has(Flags::QR) {
            return Err(Rejection::Ignore);
        }
        if header.flags.opcode() != Opcode::QUERY {
            return Err(Rejection::Respond(Rcode::NOTIMP));
        }
        let formerr = |_: WireError| Rejection::Respond(Rcode::FORMERR);
        let message = Message::parse(bytes).map_err(formerr)?;
        if message.opt().is_some_and(|opt| opt.version != 0) {
            return Err(Rejection::Respond(Rcode::BADVERS));
        }
        if header.counts[1] != 0 || header.counts[2] != 0 {
            return Err(Rejection::Respond(Rcode::FORMERR));
        }
        if matches!(message.question().qtype, Rtype::AXFR | Rtype::IXFR) {
            return Err(Rejection::Respond(Rcode::NOTIMP));
        }
        let options = message.opt().map(|opt| opt.client_options());
        Ok(Self {
            message,
            options: options.transpose().map_err(formerr)?.unwrap_or_default(),
        })
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &Message<'a> {
        &self.message
    }

    /// The question of the query.
    #[must_use]
    pub fn question(&self) -> Question<'a> {
        self.message.question()
    }

    /// The options of the OPT record.
    #[must_use]
    pub fn options(&self) -> &EdnsOptions<'a> {
        &self.options
    }

    /// The flags of the query.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.message.header().flags
    }

    /// True if the client asks for DNSSEC records. RFC 3225.
    #[must_use]
    pub fn is_dnssec_ok(&self) -> bool {
        self.message.opt().is_some_and(|opt| opt.is_dnssec_ok())
    }

    /// Largest datagram that the client accepts, in bytes. RFC 6891 §6.2.3.
    #[must_use]
    pub fn udp_payload(&self) -> usize {
        let asked = self
            .message
            .opt()
            .map_or(0, |opt| usize::from(opt.udp_payload));
        asked.max(UDP_PAYLOAD_BYTES_MIN)
    }
}

impl ClientQuery<'_> {
    /// The query as it is kept until its response, in at most [`CLIENT_QUERY_BYTES_MAX`] bytes: a longer one is
    /// written to the front of `room`, without padding and without options that no response depends on.
    ///
    /// # Errors
    /// [`Full`] if `room` is smaller than that.
    pub fn kept<'b>(&'b self, room: &'b mut [u8]) -> Result<&'b [u8], Full> {
        let bytes = self.message.bytes();
        if bytes.len() <= CLIENT_QUERY_BYTES_MAX {
            return Ok(bytes);
        }
        let mut out = Writer::new(room);
        let header = self.message.header();
        out.numbers([header.id, header.flags.0, 1, 0, 0])?;
        out.numbers([u16::from(self.message.opt().is_some())])?;
        out.bytes(&bytes[HEADER_BYTES..self.question().end()])?;
        if let Some(opt) = self.message.opt() {
            let written = OptWriter::begin(&mut out, opt.udp_payload, 0, opt.flags)?;
            self.write_options(&mut out)?;
            written.finish(&mut out)?;
        }
        let len = out.len();
        Ok(&room[..len])
    }

    fn write_options(&self, out: &mut Writer<'_>) -> Result<(), Full> {
        if let Some(cookie) = self.options.cookie {
            write_option(out, OptionCode::COOKIE, &[&cookie.client, cookie.server])?;
        }
        if let Some(subnet) = self.options.subnet {
            subnet.write(0, out)?;
        }
        for (is_there, code) in [
            (self.options.has_padding, OptionCode::PADDING),
            (self.options.has_keepalive, OptionCode::TCP_KEEPALIVE),
        ] {
            if is_there {
                write_option(out, code, &[])?;
            }
        }
        Ok(())
    }
}

/// Writes the response to a rejected query. Returns its length in bytes.
///
/// The question is repeated if it can be parsed: RFC 1035 §4.1.1 has
/// no rule for other cases, and a client matches by id.
///
/// # Errors
/// [`Full`].
pub fn write_rejection(query: &[u8], rcode: Rcode, out: &mut [u8]) -> Result<usize, Full> {
    let header = Header::read(query).map_err(|_| Full)?;
    let question = match header.counts[0] {
        1 => Question::read(query).ok(),
        _ => None,
    };
    let question_end = question.map_or(HEADER_BYTES, |question| question.end());
    let opt = Message::parse(query).ok().and_then(|message| message.opt());
    // A response code of more than four bits needs an OPT record.
    let has_opt = opt.is_some() || rcode.high() != 0;
    let kept = header.flags.0 & (0x7800 | Flags::RD | Flags::CD);
    let flags = Flags::QR | Flags::RA | kept | rcode.low();
    let mut writer = Writer::new(out);
    writer.numbers([header.id, flags, u16::from(question.is_some()), 0, 0])?;
    writer.numbers([u16::from(has_opt)])?;
    writer.bytes(&query[HEADER_BYTES..question_end])?;
    if has_opt {
        let dnssec_ok = opt.map_or(0, |opt| opt.flags & Opt::DNSSEC_OK);
        let payload = super::write::length(UDP_PAYLOAD_BYTES)?;
        OptWriter::begin(&mut writer, payload, rcode.high(), dnssec_ok)?.finish(&mut writer)?;
    }
    Ok(writer.len())
}
