//! Responses to clients: from a cached or received body, or from local records.
//!
//! Invariant: a response in a datagram never exceeds the size that the client and the path accept. Optional
//! sections are dropped first, and never a part of an RRset: RFC 2181 §9.

use std::borrow::Borrow;

use super::body::Body;
use super::code::{ExtendedError, Rcode, Rtype};
use super::edns::{Opt, OptWriter, OptionCode, write_option};
use super::header::{Flags, HEADER_BYTES};
use super::message::Message;
use super::name::Name;
use super::query::ClientQuery;
use super::rdata;
use super::record::{Record, Section};
use super::write::{Full, Writer, length, set_number};
use crate::limits::{
    EXTENDED_ERROR_TEXT_BYTES_MAX, MESSAGE_BYTES_MAX, RESPONSE_PADDING_BYTES, UDP_PAYLOAD_BYTES,
};

/// Transport of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A datagram, limited to this size or the client's, whichever is smaller.
    Udp {
        /// Maximum in bytes.
        payload_max: usize,
    },
    /// A stream.
    Stream,
}

/// Padding of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// No padding, on unencrypted transports.
    None,
    /// Padding to a block, if the client padded its query. RFC 8467 §4.1.
    Blocks,
}

/// The settings of a response to a query.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// Query of the client.
    pub query: &'a ClientQuery<'a>,
    /// Transport of the query.
    pub transport: Transport,
    /// Padding of the response.
    pub padding: Padding,
    /// Extended DNS error with its text: RFC 8914.
    pub extended_error: Option<(ExtendedError, &'a str)>,
    /// Server cookie: RFC 7873. Sent if the client has sent a cookie.
    pub server_cookie: Option<[u8; 16]>,
    /// Idle timeout of the connection in units of 100 ms: RFC 7828. Sent if the client asked for it.
    pub keepalive: Option<u16>,
    /// Alias of the qname, whose CNAME record comes first.
    pub alias: Option<Alias<'a>>,
    /// Scope of the answer: RFC 7871 §7.2.1. Sent if the client named a network.
    pub subnet_scope: u8,
}

/// A local alias. RFC 1034 §3.6.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alias<'a> {
    /// Target of the alias.
    pub target: &'a Name,
    /// TTL of the CNAME record, in seconds.
    pub ttl: u32,
}

/// A local record.
#[derive(Debug, Clone, Copy)]
pub struct LocalRecord<'a> {
    /// Owner of the record; `None` for the qname.
    pub owner: Option<&'a Name>,
    /// Type of the record.
    pub rtype: Rtype,
    /// TTL in seconds.
    pub ttl: u32,
    /// Data in wire form.
    pub rdata: &'a [u8],
}

/// Header bits of a body that are passed to the client.
const BODY_FLAGS: u16 = Flags::AD | 0x0f;
/// Header bits of a query that its response repeats.
const QUERY_FLAGS: u16 = Flags::RD | Flags::CD;

impl<'a> Reply<'a> {
    /// A response without options.
    #[must_use]
    pub fn new(query: &'a ClientQuery<'a>, transport: Transport) -> Self {
        Self {
            query,
            transport,
            padding: Padding::None,
            extended_error: None,
            server_cookie: None,
            keepalive: None,
            alias: None,
            subnet_scope: 0,
        }
    }

    /// Completes the response from the body at the front of `out`. Returns its length.
    ///
    /// # Errors
    /// [`Full`]; never with room for [`MESSAGE_BYTES_MAX`] or the limit of the datagram.
    pub fn finish(&self, out: &mut [u8], body: Body) -> Result<usize, Full> {
        self.finish_with(out, body, 0)
    }

    /// Writes a response without records. Returns its length. RFC 6891 §6.1.3: a client without EDNS gets SERVFAIL
    /// instead of an extended code, of which it would read the low bits only.
    ///
    /// # Errors
    /// [`Full`].
    pub fn rcode(&self, rcode: Rcode, out: &mut [u8]) -> Result<usize, Full> {
        let has_room = rcode.high() == 0 || self.query.message().opt().is_some();
        let rcode = if has_room { rcode } else { Rcode::SERVFAIL };
        let body = self.begin(rcode, out)?;
        self.finish_with(out, body, rcode.high())
    }

    /// Writes a response with local records. Returns its length.
    ///
    /// # Errors
    /// [`Full`].
    pub fn records<'r>(
        &self,
        records: impl IntoIterator<Item = impl Borrow<LocalRecord<'r>>>,
        out: &mut [u8],
    ) -> Result<usize, Full> {
        let body = self.begin(Rcode::NOERROR, out)?;
        let mut writer = Writer::after(out, body.len);
        let mut count = u16::from(self.alias.is_some());
        for record in records {
            write_local(record.borrow(), self.query, &mut writer)?;
            count = count.checked_add(1).ok_or(Full)?;
        }
        let len = writer.len();
        set_number(out, 6, count);
        let body = Body {
            len,
            authority_at: len,
            additional_at: len,
        };
        self.finish(out, body)
    }

    /// Writes a negative response, NXDOMAIN or NODATA, that clients may cache for `ttl` seconds: RFC 2308
    /// §3 requires an SOA record for that, whose owner is the qname. Returns the length of the response.
    ///
    /// # Errors
    /// [`Full`].
    pub fn negative(&self, rcode: Rcode, ttl: u32, out: &mut [u8]) -> Result<usize, Full> {
        let body = self.begin(rcode, out)?;
        let mut rdata = [0; 22];
        // MNAME and RNAME are the root; SERIAL is 1; REFRESH, RETRY, EXPIRE; MINIMUM is the negative TTL.
        for (at, number) in [(2, 1), (6, 3600), (10, 600), (14, 86400), (18, ttl)] {
            rdata[at..at + 4].copy_from_slice(&u32::to_be_bytes(number));
        }
        let soa = LocalRecord {
            owner: None,
            rtype: Rtype::SOA,
            ttl,
            rdata: &rdata,
        };
        let mut writer = Writer::after(out, body.len);
        write_local(&soa, self.query, &mut writer)?;
        let len = writer.len();
        set_number(out, 8, 1);
        let body = Body {
            len,
            authority_at: body.len,
            additional_at: len,
        };
        self.finish(out, body)
    }

    /// Writes the response from `answer`, a message with the answer for the target of [`Self::alias`]. Returns its
    /// length.
    ///
    /// # Errors
    /// [`Full`]: names are written uncompressed, so a message of nearly the largest size does not fit.
    pub fn finish_alias(&self, answer: &[u8], out: &mut [u8]) -> Result<usize, Full> {
        let answer = Message::parse(answer).map_err(|_| Full)?;
        let rcode = Rcode(answer.header().flags.0 & 0x0f);
        let begun = self.begin(rcode, out)?;
        let mut writer = Writer::after(out, begun.len);
        let (mut counts, mut ends) = ([u16::from(self.alias.is_some()), 0], [0; 2]);
        let sections = [Section::Answer, Section::Authority];
        for (index, section) in sections.into_iter().enumerate() {
            for record in answer.records(section) {
                self.write_whole(&record, &answer, &mut writer)?;
                counts[index] += 1;
            }
            ends[index] = writer.len();
        }
        set_number(out, 6, counts[0]);
        set_number(out, 8, counts[1]);
        let body = Body {
            len: ends[1],
            authority_at: ends[0],
            additional_at: ends[1],
        };
        self.finish(out, body)
    }

    /// Writes a record of another message with uncompressed names; the alias' target keeps its local spelling.
    fn write_whole(
        &self,
        record: &Record<'_>,
        message: &Message<'_>,
        out: &mut Writer<'_>,
    ) -> Result<(), Full> {
        let (owner, _) = message.name_at(record.owner_at).map_err(|_| Full)?;
        let target = self.alias.map(|alias| alias.target);
        let owner = target.filter(|target| **target == owner).unwrap_or(&owner);
        out.bytes(owner.wire())?;
        out.numbers([record.rtype.0, record.class.0])?;
        out.bytes(&record.ttl.to_be_bytes())?;
        rdata::write(message, record, out)
    }

    /// Writes header and question, and the record of the alias.
    fn begin(&self, rcode: Rcode, out: &mut [u8]) -> Result<Body, Full> {
        let question = self.query.question();
        let end = question.end();
        let mut writer = Writer::new(out);
        let answers = u16::from(self.alias.is_some());
        writer.numbers([0, Flags::QR | rcode.low(), 1, answers, 0, 0])?;
        writer.bytes(&self.query.message().bytes()[HEADER_BYTES..end])?;
        let Some(Alias { target, ttl }) = self.alias else {
            return Ok(Body::of_question(&question));
        };
        let record = LocalRecord {
            owner: None,
            rtype: Rtype::CNAME,
            ttl,
            rdata: target.wire(),
        };
        write_local(&record, self.query, &mut writer)?;
        Ok(Body {
            len: writer.len(),
            authority_at: writer.len(),
            additional_at: writer.len(),
        })
    }

    fn finish_with(&self, out: &mut [u8], body: Body, rcode_high: u8) -> Result<usize, Full> {
        let bytes_max = self.bytes_max().min(out.len());
        let (len, is_truncated) = self.fit(out, body, bytes_max)?;
        let flags = self.flags(out);
        let truncated = if is_truncated { Flags::TC } else { 0 };
        set_number(out, 0, self.query.message().header().id);
        set_number(out, 2, flags | truncated);
        let question = &self.query.message().bytes()[HEADER_BYTES..self.query.question().end()];
        // The client gets its own spelling back, which its 0x20 encoding may need.
        out[HEADER_BYTES..HEADER_BYTES + question.len()].copy_from_slice(question);
        if self.query.message().opt().is_none() {
            return Ok(len);
        }
        set_number(out, 10, 1);
        let mut writer = Writer::after(out, len);
        self.write_opt(rcode_high, bytes_max, &mut writer)?;
        Ok(writer.len())
    }

    fn bytes_max(&self) -> usize {
        match self.transport {
            Transport::Udp { payload_max } => self.query.udp_payload().min(payload_max),
            Transport::Stream => MESSAGE_BYTES_MAX,
        }
    }

    /// Drops the sections that do not fit, and corrects the counts. Returns the remaining length, and whether
    /// the response is truncated.
    fn fit(&self, out: &mut [u8], body: Body, bytes_max: usize) -> Result<(usize, bool), Full> {
        let room = bytes_max.checked_sub(self.opt_bytes()).ok_or(Full)?;
        // The pending OPT record is the only additional one.
        if body.len <= room && body.len == body.additional_at {
            set_number(out, 10, 0);
            return Ok((body.len, false));
        }
        set_number(out, 10, 0);
        if body.additional_at <= room {
            return Ok((body.additional_at, false));
        }
        let question_end = self.query.question().end();
        let has_answer = body.authority_at > question_end;
        // With DNSSEC, the authority section may have the proof of the answer: RFC 4035 §3.1.3.
        let can_spare_authority = has_answer && !self.query.is_dnssec_ok();
        set_number(out, 8, 0);
        if body.authority_at <= room && can_spare_authority {
            return Ok((body.authority_at, false));
        }
        set_number(out, 6, 0);
        Ok((question_end, true))
    }

    fn flags(&self, out: &[u8]) -> u16 {
        let query = self.query.flags().0;
        let body = u16::from_be_bytes([out[2], out[3]]) & BODY_FLAGS;
        // RFC 6840 §5.8: AD is set only for queries with AD or DO.
        let sees_ad = query & Flags::AD != 0 || self.query.is_dnssec_ok();
        let body = if sees_ad { body } else { body & !Flags::AD };
        Flags::QR | Flags::RA | query & QUERY_FLAGS | body
    }

    /// Length of the OPT record, without padding.
    fn opt_bytes(&self) -> usize {
        if self.query.message().opt().is_none() {
            return 0;
        }
        let options = self.query.options();
        let error = self
            .extended_error
            .map_or(0, |(_, text)| 6 + shortened(text).len());
        let cookie = match (options.cookie, self.server_cookie) {
            (Some(_), Some(server)) => 4 + 8 + server.len(),
            _ => 0,
        };
        let is_keepalive_due = options.has_keepalive && self.transport == Transport::Stream;
        let keepalive = self.keepalive.filter(|_| is_keepalive_due).map_or(0, |_| 6);
        let subnet = options
            .subnet
            .map_or(0, |subnet| 8 + usize::from(subnet.prefix).div_ceil(8));
        OptWriter::FIXED_BYTES + error + cookie + keepalive + subnet
    }

    fn write_opt(
        &self,
        rcode_high: u8,
        bytes_max: usize,
        out: &mut Writer<'_>,
    ) -> Result<(), Full> {
        let options = self.query.options();
        let asked = self.query.message().opt().map_or(0, |opt| opt.flags);
        let payload = length(UDP_PAYLOAD_BYTES)?;
        let opt = OptWriter::begin(out, payload, rcode_high, asked & Opt::DNSSEC_OK)?;
        if let (Some(cookie), Some(server)) = (options.cookie, self.server_cookie) {
            write_option(out, OptionCode::COOKIE, &[&cookie.client, &server])?;
        }
        if let Some(subnet) = options.subnet {
            subnet.write(self.subnet_scope, out)?;
        }
        if let Some(units) = self.keepalive
            && options.has_keepalive
            && self.transport == Transport::Stream
        {
            write_option(out, OptionCode::TCP_KEEPALIVE, &[&units.to_be_bytes()])?;
        }
        if let Some((code, text)) = self.extended_error {
            let parts: [&[u8]; 2] = [&code.0.to_be_bytes(), shortened(text).as_bytes()];
            write_option(out, OptionCode::EXTENDED_ERROR, &parts)?;
        }
        if self.padding == Padding::Blocks && options.has_padding {
            opt.pad(out, RESPONSE_PADDING_BYTES, bytes_max)?;
        }
        opt.finish(out)
    }
}

fn write_local(
    record: &LocalRecord<'_>,
    query: &ClientQuery<'_>,
    out: &mut Writer<'_>,
) -> Result<(), Full> {
    match record.owner {
        Some(owner) => out.bytes(owner.wire())?,
        None => out.bytes(&[0xc0, 0x0c])?,
    }
    out.numbers([record.rtype.0, query.question().qclass.0])?;
    out.bytes(&record.ttl.to_be_bytes())?;
    out.numbers([length(record.rdata.len())?])?;
    out.bytes(record.rdata)
}

/// Truncates the text of an extended error at a character boundary.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(EXTENDED_ERROR_TEXT_BYTES_MAX)]
}
