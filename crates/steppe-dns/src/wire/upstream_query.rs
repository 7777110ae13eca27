//! A query to a server. Spec: RFC 1035 §4.1; RFC 6891; RFC 5452 §9 (what makes it hard to forge).

use super::edns::{Opt, OptWriter, OptionCode, Subnet, write_option};
use super::header::{Flags, HEADER_BYTES};
use super::message::Question;
use super::name::CaseBits;
use super::reply::Padding;
use super::write::{Full, Writer, length};
use crate::limits::{QUERY_PADDING_BYTES, UDP_PAYLOAD_BYTES, UPSTREAM_QUERY_BYTES_MAX};

/// What is asked, and how. The same for every server that is asked; ids and cases differ.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamQuery<'a> {
    /// The question.
    pub question: Question<'a>,
    /// RD, AD and CD.
    pub flags: Flags,
    /// The second part of the OPT record: [`Opt::DNSSEC_OK`] or zero.
    pub edns_flags: u16,
    /// RFC 7871: the network to answer for.
    pub subnet: Option<Subnet>,
    /// RFC 7873: our part of the cookie, and the server's as far as it gave one.
    pub cookie: Option<(&'a [u8; 8], &'a [u8])>,
    /// Whether to pad: on transports that are encrypted.
    pub padding: Padding,
}

impl UpstreamQuery<'_> {
    /// Writes the query. Returns its size, at most [`UPSTREAM_QUERY_BYTES_MAX`].
    ///
    /// # Errors
    /// [`Full`].
    pub fn write(&self, id: u16, case: CaseBits, out: &mut [u8]) -> Result<usize, Full> {
        let flags = self.flags.0 & (Flags::RD | Flags::AD | Flags::CD);
        let bytes_max = out.len().min(UPSTREAM_QUERY_BYTES_MAX);
        let mut writer = Writer::new(&mut out[..bytes_max]);
        writer.numbers([id, flags, 1, 0, 0, 1])?;
        writer.bytes(self.question.qname)?;
        writer.numbers([self.question.qtype.0, self.question.qclass.0])?;
        let payload = length(UDP_PAYLOAD_BYTES)?;
        let edns_flags = self.edns_flags & Opt::DNSSEC_OK;
        let opt = OptWriter::begin(&mut writer, payload, 0, edns_flags)?;
        if let Some(subnet) = self.subnet {
            subnet.write(0, &mut writer)?;
        }
        if let Some((client, server)) = self.cookie {
            write_option(&mut writer, OptionCode::COOKIE, &[client, server])?;
        }
        if self.padding == Padding::Blocks {
            opt.pad(&mut writer, QUERY_PADDING_BYTES, bytes_max)?;
        }
        opt.finish(&mut writer)?;
        let len = writer.len();
        let qname_end = HEADER_BYTES + self.question.qname.len();
        case.apply(&mut out[HEADER_BYTES..qname_end]);
        Ok(len)
    }
}
