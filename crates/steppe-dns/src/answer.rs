//! The answer to a client, and its encoding.

use crate::config::Block;
use crate::limits::LOCAL_TTL_SECONDS;
use crate::manner::Manner;
use crate::query_log::Decision;
use crate::rules::Rewriting;
use crate::wire::{
    Alias, Body, ClientQuery, ExtendedError, Flags, Full, LocalRecord, Message, Name, Rcode, Reply,
    Rtype,
};

/// The extended error of an answer and its text. RFC 8914.
pub(crate) type Reason = Option<(ExtendedError, &'static str)>;

/// The answer of a question.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// A response whose message is at the front of a buffer.
    Body(Body, Reason, Audience),
    /// A response code without records.
    Rcode(Rcode, Reason),
    /// An empty response with TC, after which the client asks over a stream.
    Truncated,
}

/// The name that an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerName {
    /// The name of the client's question.
    Asked,
    /// The target of the alias that a rule makes of the client's name.
    Alias,
}

/// The clients that an answer is valid for. RFC 7871 §7.2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// All clients.
    All,
    /// Clients in the network that servers were sent as client subnet.
    Subnet,
}

impl AnswerName {
    /// The treatment of rules that rewrite: the target of an alias is not rewritten again.
    pub(crate) fn rewriting(self) -> Rewriting {
        match self {
            Self::Asked => Rewriting::Counts,
            Self::Alias => Rewriting::Done,
        }
    }
}

impl Audience {
    /// The scope prefix length in the response: the whole prefix of the query's client subnet, or 0.
    pub(crate) fn scope(self, query: &ClientQuery<'_>) -> u8 {
        match (self, query.options().subnet) {
            (Self::Subnet, Some(subnet)) => subnet.prefix,
            _ => 0,
        }
    }
}

/// An answer with the bytes of its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerBytes<'a> {
    pub(crate) answer: Answer,
    pub(crate) name: AnswerName,
    pub(crate) bytes: &'a [u8],
}

impl Answer {
    /// The decision that a stale answer is logged with, in place of the query's own; `None` for other answers.
    pub(crate) fn decision(&self) -> Option<Decision> {
        match self {
            Self::Body(_, Some((code, _)), _)
                if [ExtendedError::STALE_ANSWER, ExtendedError::STALE_NXDOMAIN].contains(code) =>
            {
                Some(Decision::Stale)
            }
            Self::Body(..) | Self::Rcode(..) | Self::Truncated => None,
        }
    }

    /// The bytes of the answer's body at the front of `buffer`; empty for an answer without one.
    pub(crate) fn bytes<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Body(body, ..) => &buffer[..body.len],
            Self::Rcode(..) | Self::Truncated => &[],
        }
    }
}

impl AnswerBytes<'_> {
    /// Writes the response to a query. Returns its size.
    ///
    /// # Errors
    /// [`Full`].
    pub(crate) fn write(
        &self,
        query: &ClientQuery<'_>,
        manner: &Manner,
        out: &mut [u8],
    ) -> Result<usize, Full> {
        let mut reply = manner.reply(query);
        match self.answer {
            Answer::Body(_, reason, audience) if self.name == AnswerName::Alias => {
                reply.extended_error = reason;
                reply.subnet_scope = audience.scope(query);
                write_alias(reply, self.bytes, out)
            }
            Answer::Body(body, reason, audience) => {
                reply.extended_error = reason;
                reply.subnet_scope = audience.scope(query);
                out[..self.bytes.len()].copy_from_slice(self.bytes);
                reply.finish(out, body)
            }
            Answer::Rcode(rcode, reason) => {
                reply.extended_error = reason;
                reply.rcode(rcode, out)
            }
            // Nothing larger than a stream's response can be asked for.
            Answer::Truncated if manner.is_of_stream() => {
                reply.extended_error = Some((ExtendedError::INVALID_DATA, "truncated"));
                reply.rcode(Rcode::SERVFAIL, out)
            }
            Answer::Truncated => {
                let len = reply.rcode(Rcode::NOERROR, out)?;
                let [high, _] = Flags::TC.to_be_bytes();
                out[2] |= high;
                Ok(len)
            }
        }
    }
}

/// Writes the response to a question whose name is an alias of the name that `body` is for.
///
/// # Errors
/// [`Full`].
pub(crate) fn write_alias(
    mut reply: Reply<'_>,
    body: &[u8],
    out: &mut [u8],
) -> Result<usize, Full> {
    let target = Message::parse(body).ok();
    let target = target.and_then(|body| Name::from_wire(body.question().qname).ok());
    // The body has the name in the case of the query to the server, which may be random (0x20).
    let target = target.ok_or(Full)?.to_lower();
    let mut aliased = reply;
    aliased.alias = Some(Alias {
        target: &target,
        ttl: LOCAL_TTL_SECONDS,
    });
    aliased.finish_alias(body, out).or_else(|Full| {
        reply.extended_error = Some((ExtendedError::INVALID_DATA, "response too large"));
        reply.rcode(Rcode::SERVFAIL, out)
    })
}

/// Writes the response to a query that is blocked.
///
/// # Errors
/// [`Full`].
pub(crate) fn write_blocked(
    mut reply: Reply<'_>,
    block: Block,
    out: &mut [u8],
) -> Result<usize, Full> {
    reply.extended_error = Some((ExtendedError::BLOCKED, ""));
    let (rtype, ttl) = (reply.query.question().qtype, LOCAL_TTL_SECONDS);
    let record = |rdata| LocalRecord {
        owner: None,
        rtype,
        ttl,
        rdata,
    };
    match (block, rtype) {
        (Block::Refused, _) => reply.rcode(Rcode::REFUSED, out),
        (Block::NameError, _) => reply.negative(Rcode::NXDOMAIN, ttl, out),
        (Block::Zero, Rtype::A) => reply.records([record(&[0; 4])], out),
        (Block::Zero, Rtype::AAAA) => reply.records([record(&[0; 16])], out),
        (Block::Zero | Block::NoData, _) => reply.negative(Rcode::NOERROR, ttl, out),
    }
}

/// The response code of a written response. Codes of more than four bits occur only where OPT is the one record.
pub(crate) fn rcode_of(response: &[u8]) -> Rcode {
    let low = u16::from(response.get(3).copied().unwrap_or_default()) & 0x0f;
    let has_opt_alone = response.get(6..12) == Some(&[0, 0, 0, 0, 0, 1]);
    let opt = has_opt_alone.then(|| Message::parse(response).ok()?.opt());
    let high = opt.flatten().map_or(0, |opt| opt.rcode_high);
    Rcode(u16::from(high) << 4 | low)
}
