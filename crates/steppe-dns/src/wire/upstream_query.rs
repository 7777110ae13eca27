//! Queries to servers. Spec: RFC 1035 §4.1; RFC 6891; RFC 5452 §9 (protection against forgery).

use super::edns::{Opt, OptWriter, OptionCode, Subnet, write_option};
use super::header::{Flags, HEADER_BYTES};
use super::message::Question;
use super::name::CaseBits;
use super::reply::Padding;
use super::write::{Full, Writer, length};
use crate::limits::{QUERY_PADDING_BYTES, UDP_PAYLOAD_BYTES, UPSTREAM_QUERY_BYTES_MAX};

/// A query to servers, without its id and case, which differ between servers.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamQuery<'a> {
    /// The question.
    pub question: Question<'a>,
    /// RD, AD and CD.
    pub flags: Flags,
    /// Flags of the OPT record: [`Opt::DNSSEC_OK`] or zero. `None`: no EDNS, and so no options.
    pub edns_flags: Option<u16>,
    /// Client subnet: RFC 7871.
    pub subnet: Option<Subnet>,
    /// Client cookie, and the server cookie if the server has sent one: RFC 7873.
    pub cookie: Option<(&'a [u8; 8], &'a [u8])>,
    /// Padding, on encrypted transports.
    pub padding: Padding,
}

impl UpstreamQuery<'_> {
    /// Writes the query. Returns its length, at most [`UPSTREAM_QUERY_BYTES_MAX`].
    ///
    /// # Errors
    /// [`Full`].
    pub fn write(&self, id: u16, case: CaseBits, out: &mut [u8]) -> Result<usize, Full> {
        let flags = self.flags.0 & (Flags::RD | Flags::AD | Flags::CD);
        let bytes_max = out.len().min(UPSTREAM_QUERY_BYTES_MAX);
        let mut writer = Writer::new(&mut out[..bytes_max]);
        let has_opt = u16::from(self.edns_flags.is_some());
        writer.numbers([id, flags, 1, 0, 0, has_opt])?;
        writer.bytes(self.question.qname)?;
        writer.numbers([self.question.qtype.0, self.question.qclass.0])?;
        if let Some(flags) = self.edns_flags {
            self.write_opt(flags, bytes_max, &mut writer)?;
        }
        let len = writer.len();
        let qname_end = HEADER_BYTES + self.question.qname.len();
        case.apply(&mut out[HEADER_BYTES..qname_end]);
        Ok(len)
    }

    fn write_opt(&self, flags: u16, bytes_max: usize, out: &mut Writer<'_>) -> Result<(), Full> {
        let payload = length(UDP_PAYLOAD_BYTES)?;
        let opt = OptWriter::begin(out, payload, 0, flags & Opt::DNSSEC_OK)?;
        if let Some(subnet) = self.subnet {
            subnet.write(0, out)?;
        }
        if let Some((client, server)) = self.cookie {
            write_option(out, OptionCode::COOKIE, &[client, server])?;
        }
        if self.padding == Padding::Blocks {
            opt.pad(out, QUERY_PADDING_BYTES, bytes_max)?;
        }
        opt.finish(out)
    }
}
