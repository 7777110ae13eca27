//! Responses of servers: classification, and the records that are passed on.
//!
//! Invariant: records that are passed on answer the question: answers on the alias chain
//! from the qname, the SOA of a zone that encloses the end of the chain, and proofs for clients that
//! asked for them. The rest (other names, authorities beside an answer, additional records) is dropped,
//! as `minimal-responses` of BIND and Unbound does. Spec: RFC 2308 §2 (negative responses), RFC 2181
//! §5.4.1 (trust ranking), RFC 6672 (DNAME).
//!
//! Non-goals: matching with the query that was sent, which `in_flight` does.

use crate::limits::CNAME_CHAIN_MAX;

use super::body::Body;
use super::code::{Rcode, Rtype};
use super::error::WireError;
use super::header::{Flags, HEADER_BYTES};
use super::message::Message;
use super::name::{Name, Steps, check_name, read_name};
use super::rdata;
use super::record::{Record, Section};
use super::write::{Full, Writer, set_number};

/// Classification of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The response has records of the qtype.
    Answer,
    /// The name or the type does not exist.
    Negative {
        /// Denied part of the question.
        denial: Denial,
        /// Negative TTL in seconds: the lesser of the SOA's TTL and its MINIMUM field. RFC 2308
        /// §5. `None` without an SOA record: the response must not be cached.
        ttl: Option<u32>,
    },
    /// A referral to other servers, which a resolver should not send.
    Referral,
    /// The response is truncated: the query is to be repeated over a stream.
    Truncated,
    /// A failure, with its response code.
    Failure(Rcode),
}

/// The denied part of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// The name: NXDOMAIN.
    Name,
    /// The type: NODATA, RFC 2308 §2.2.
    Type,
}

/// Settings of the query that affect the reading of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Maximum number of aliases that are followed.
    pub cname_depth: usize,
    /// True if the query had DO set: signatures and proofs are passed on then.
    pub is_dnssec_ok: bool,
}

/// A parsed and checked response.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    message: Message<'a>,
    chain: Chain,
    outcome: Outcome,
    asked: Asked,
}

/// The names on the alias chain of a question, the qname first.
#[derive(Debug, Clone, Copy)]
struct Chain {
    names: [Name; CNAME_CHAIN_MAX],
    len: usize,
    has_dname: bool,
}

impl<'a> Response<'a> {
    /// Checks all names of a response, and classifies it.
    ///
    /// # Errors
    /// [`WireError`]; [`WireError::Aliases`] if aliases form a loop.
    pub fn read(message: Message<'a>, asked: Asked) -> Result<Self, WireError> {
        check_names(&message)?;
        let chain = Chain::of(&message, asked.cname_depth)?;
        let mut response = Self {
            message,
            chain,
            outcome: Outcome::Truncated,
            asked,
        };
        if !message.header().flags.has(Flags::TC) {
            response.outcome = response.classify()?;
        }
        Ok(response)
    }

    /// The classification.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &Message<'a> {
        &self.message
    }

    /// The response code, with the extended bits of the OPT record.
    #[must_use]
    pub fn rcode(&self) -> Rcode {
        let high = self.message.opt().map_or(0, |opt| opt.rcode_high);
        Rcode(u16::from(high) << 4 | self.message.header().flags.rcode().0)
    }

    /// The records that are passed on.
    pub fn kept(&self, section: Section) -> impl Iterator<Item = Record<'a>> {
        self.message
            .records(section)
            .filter(move |record| self.is_kept(section, record))
    }

    /// Writes the records that are passed on, without OPT and with id zero.
    ///
    /// # Errors
    /// [`Full`]: a body without a dropped record in the middle is copied, but another one is written anew, with
    /// some compressed names uncompressed.
    pub fn write_body(&self, out: &mut [u8]) -> Result<Body, Full> {
        match self.kept_prefix() {
            Some(counts) => self.copy_prefix(counts, out),
            None => self.rewrite(out),
        }
    }

    fn classify(&self) -> Result<Outcome, WireError> {
        let is_name_denied = match self.rcode() {
            Rcode::NOERROR => false,
            Rcode::NXDOMAIN => true,
            rcode => return Ok(Outcome::Failure(rcode)),
        };
        let question = self.message.question();
        let is_asked =
            |record: &Record<'_>| question.qtype == Rtype::ANY || record.rtype == question.qtype;
        let answers = self.kept(Section::Answer);
        let mut asked = answers.filter(is_asked);
        if !is_name_denied && asked.any(|record| self.owner_is(&record, self.chain.last())) {
            return Ok(Outcome::Answer);
        }
        let soa = self
            .kept(Section::Authority)
            .find(|record| record.rtype == Rtype::SOA);
        let mut authorities = self.message.records(Section::Authority);
        if !is_name_denied && soa.is_none() && authorities.any(|record| record.rtype == Rtype::NS) {
            return Ok(Outcome::Referral);
        }
        Ok(Outcome::Negative {
            denial: if is_name_denied {
                Denial::Name
            } else {
                Denial::Type
            },
            ttl: soa.map(|soa| soa_ttl(&soa)).transpose()?,
        })
    }

    fn is_kept(&self, section: Section, record: &Record<'_>) -> bool {
        if record.class != self.message.question().qclass {
            return false;
        }
        match section {
            Section::Answer => self.is_on_chain(record),
            Section::Authority => self.is_kept_authority(record),
            Section::Additional => false,
        }
    }

    fn is_on_chain(&self, record: &Record<'_>) -> bool {
        if self.is_unwanted_proof(record.rtype) {
            return false;
        }
        // Most owner names are a pointer to the question.
        if self.message.bytes()[record.owner_at..].starts_with(&[0xc0, 0x0c]) {
            return true;
        }
        let Some(owner) = self.owner(record) else {
            return false;
        };
        let names = self.chain.names();
        let is_dname = covered_type(record) == Rtype::DNAME;
        names.contains(&owner)
            || self.chain.has_dname
                && is_dname
                && names.iter().any(|name| name.is_at_or_below(&owner))
    }

    /// True for signatures and proofs, unless the query had DO or asked for the type. RFC 4035 §3.2.1.
    fn is_unwanted_proof(&self, rtype: Rtype) -> bool {
        let is_proof = matches!(rtype, Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3);
        let asked = self.message.question().qtype;
        is_proof && !self.asked.is_dnssec_ok && asked != rtype && asked != Rtype::ANY
    }

    fn is_kept_authority(&self, record: &Record<'_>) -> bool {
        match covered_type(record) {
            Rtype::NSEC | Rtype::NSEC3 => self.asked.is_dnssec_ok,
            Rtype::SOA if record.rtype == Rtype::RRSIG && !self.asked.is_dnssec_ok => false,
            Rtype::SOA => self
                .owner(record)
                .is_some_and(|owner| self.chain.last().is_at_or_below(&owner)),
            _ => false,
        }
    }

    fn owner(&self, record: &Record<'_>) -> Option<Name> {
        let bytes = self.message.bytes();
        let mut steps = Steps::of_message(bytes.len());
        let (name, _) = read_name(bytes, record.owner_at, &mut steps).ok()?;
        Some(name)
    }

    fn owner_is(&self, record: &Record<'_>, name: &Name) -> bool {
        let is_question = self.message.bytes()[record.owner_at..].starts_with(&[0xc0, 0x0c]);
        if is_question && self.chain.len == 1 {
            return true;
        }
        self.owner(record).is_some_and(|owner| owner == *name)
    }

    /// Counts of answer and authority records that are passed on, if no dropped record is before them.
    fn kept_prefix(&self) -> Option<[u16; 2]> {
        let mut counts = [0; 2];
        let mut is_over = false;
        for (count, section) in counts.iter_mut().zip([Section::Answer, Section::Authority]) {
            for record in self.message.records(section) {
                let is_kept = self.is_kept(section, &record);
                if is_kept && is_over {
                    return None;
                }
                is_over |= !is_kept;
                *count += u16::from(is_kept);
            }
        }
        Some(counts)
    }

    fn copy_prefix(&self, counts: [u16; 2], out: &mut [u8]) -> Result<Body, Full> {
        let mut ends = [self.message.question().end(); 2];
        for (index, section) in [Section::Answer, Section::Authority]
            .into_iter()
            .enumerate()
        {
            ends[index] = ends[index.saturating_sub(1)];
            let kept = self.message.records(section).take(counts[index].into());
            ends[index] = kept.last().map_or(ends[index], |record| record.end());
        }
        let bytes = &self.message.bytes()[..ends[1]];
        out.get_mut(..bytes.len())
            .ok_or(Full)?
            .copy_from_slice(bytes);
        self.set_header(counts, out);
        Ok(Body {
            len: ends[1],
            authority_at: ends[0],
            additional_at: ends[1],
        })
    }

    fn rewrite(&self, out: &mut [u8]) -> Result<Body, Full> {
        let question_end = self.message.question().end();
        let question = &self.message.bytes()[..question_end];
        out.get_mut(..question_end)
            .ok_or(Full)?
            .copy_from_slice(question);
        let mut writer = Writer::after(out, question_end);
        let mut last_owner = (Name::ROOT, 0);
        let (mut counts, mut ends) = ([0; 2], [question_end; 2]);
        for (index, section) in [Section::Answer, Section::Authority]
            .into_iter()
            .enumerate()
        {
            for record in self.kept(section) {
                self.rewrite_record(&record, &mut last_owner, &mut writer)?;
                counts[index] += 1;
            }
            ends[index] = writer.len();
        }
        self.set_header(counts, out);
        Ok(Body {
            len: ends[1],
            authority_at: ends[0],
            additional_at: ends[1],
        })
    }

    fn rewrite_record(
        &self,
        record: &Record<'_>,
        last_owner: &mut (Name, usize),
        out: &mut Writer<'_>,
    ) -> Result<(), Full> {
        let (owner, _) = self.message.name_at(record.owner_at).map_err(|_| Full)?;
        let is_question = owner == self.chain.names[0];
        let known_at = match *last_owner {
            _ if is_question => HEADER_BYTES,
            (ref name, at) if *name == owner => at,
            _ => 0,
        };
        match u16::try_from(known_at) {
            Ok(at @ 1..0x4000) => out.numbers([0xc000 | at])?,
            _ => {
                *last_owner = (owner, out.len());
                out.bytes(owner.wire())?;
            }
        }
        out.numbers([record.rtype.0, record.class.0])?;
        out.bytes(&record.ttl.to_be_bytes())?;
        rdata::write(&self.message, record, out)
    }

    fn set_header(&self, counts: [u16; 2], out: &mut [u8]) {
        let passed = Flags::QR | Flags::RD | Flags::RA | Flags::AD | Flags::CD | 0x0f;
        let numbers = [
            0,
            self.message.header().flags.0 & passed,
            1,
            counts[0],
            counts[1],
            0,
        ];
        for (index, number) in numbers.into_iter().enumerate() {
            set_number(out, 2 * index, number);
        }
    }
}

impl Chain {
    fn of(message: &Message<'_>, cname_depth: usize) -> Result<Self, WireError> {
        let qname = Name::from_wire(message.question().qname)?;
        let mut chain = Self {
            names: [Name::ROOT; CNAME_CHAIN_MAX],
            len: 1,
            has_dname: false,
        };
        chain.names[0] = qname;
        let qtype = message.question().qtype;
        if matches!(qtype, Rtype::CNAME | Rtype::ANY) {
            // A validator needs the DNAME record of a synthesized CNAME.
            let is_dname = |record: Record<'_>| record.rtype == Rtype::DNAME;
            chain.has_dname = message.records(Section::Answer).any(is_dname);
            return Ok(chain);
        }
        let names_max = cname_depth.saturating_add(1).min(CNAME_CHAIN_MAX);
        // Servers send aliases in order, so one pass suffices; each further pass finds one alias at least.
        while chain.follow(message, names_max)? {}
        Ok(chain)
    }

    /// Follows aliases in one pass. True if any was found.
    fn follow(&mut self, message: &Message<'_>, names_max: usize) -> Result<bool, WireError> {
        let bytes = message.bytes();
        let mut steps = Steps::of_message(bytes.len());
        let mut is_longer = false;
        let qclass = message.question().qclass;
        for record in message
            .records(Section::Answer)
            .filter(|record| record.class == qclass)
        {
            self.has_dname |= record.rtype == Rtype::DNAME;
            if record.rtype != Rtype::CNAME {
                continue;
            }
            let (owner, _) = read_name(bytes, record.owner_at, &mut steps)?;
            if owner != *self.last() {
                continue;
            }
            let (target, _) = read_name(bytes, record.rdata_at, &mut steps)?;
            if self.len == names_max || self.names().contains(&target) {
                return Err(WireError::Aliases);
            }
            self.names[self.len] = target;
            self.len += 1;
            is_longer = true;
        }
        Ok(is_longer)
    }

    fn names(&self) -> &[Name] {
        &self.names[..self.len]
    }

    fn last(&self) -> &Name {
        &self.names[self.len - 1]
    }
}

/// Checks the names of all records. Returns the number of steps that are left.
fn check_names(message: &Message<'_>) -> Result<Steps, WireError> {
    let bytes = message.bytes();
    let mut steps = Steps::of_message(bytes.len());
    // Records of one RRset point to the same name, which is checked once.
    let mut last_pointer = [0xc0, 0x0c];
    for record in Section::ALL
        .into_iter()
        .flat_map(|section| message.records(section))
    {
        let owner = &bytes[record.owner_at..];
        if !owner.starts_with(&last_pointer) {
            check_name(bytes, record.owner_at, &mut steps)?;
            if let Some(&pointer) = owner.first_chunk::<2>()
                && pointer[0] >= 0xc0
            {
                last_pointer = pointer;
            }
        }
        rdata::check(bytes, &record, &mut steps)?;
    }
    Ok(steps)
}

/// The type of a record; for a signature, the type that it covers. RFC 4034 §3.1.1.
fn covered_type(record: &Record<'_>) -> Rtype {
    match (record.rtype, record.rdata) {
        (Rtype::RRSIG, &[high, low, ..]) => Rtype(u16::from_be_bytes([high, low])),
        (rtype, _) => rtype,
    }
}

/// The negative TTL of an SOA record: the lesser of its TTL and its MINIMUM field. RFC 2308 §5.
fn soa_ttl(soa: &Record<'_>) -> Result<u32, WireError> {
    let minimum = soa.rdata.last_chunk::<4>().ok_or(WireError::Rdata)?;
    Ok(soa.ttl.min(u32::from_be_bytes(*minimum)))
}

#[cfg(test)]
mod tests;
