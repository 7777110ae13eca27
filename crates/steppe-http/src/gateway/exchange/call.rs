//! What an exchange that is a call of gRPC learns of how it ends.

use crate::field::{FieldBlock, FieldId};
use crate::gateway::client::ClientContext;
use crate::grpc::{self, Code, Dialect};
use crate::head::{ContentLength, RequestHead, ResponseHead, Version};
use crate::metrics::Called;

/// A call in flight.
#[derive(Debug)]
pub(super) struct Call {
    /// What its client speaks.
    pub(super) dialect: Dialect,
    /// `None`: it was counted, or passes as it is in another dialect.
    called: Option<Called>,
    /// What its server has said.
    told: Option<Code>,
    /// What the gateway has told its client instead.
    refused: Option<Code>,
    /// Its client reads trailers.
    reads_trailers: bool,
    /// Its response has begun, and ends with trailers.
    ends_with_trailers: bool,
}

impl Call {
    /// Of the request `head`, if it is one.
    pub(super) fn begin(client: &ClientContext, head: &RequestHead) -> Option<Self> {
        let mut call = Self {
            dialect: Dialect::of(head)?,
            called: None,
            told: None,
            refused: None,
            reads_trailers: head.version == Version::Http2 || head.takes_trailers,
            ends_with_trailers: false,
        };
        if call.dialect == Dialect::Grpc {
            call.count(client, head);
        }
        Some(call)
    }

    /// It is seen as a call of gRPC: how it ends can be counted.
    pub(super) fn count(&mut self, client: &ClientContext, head: &RequestHead) {
        let lease = client.exchange_lease();
        self.called = Some(client.calls().begin(head.path(), lease));
    }

    /// A server is asked.
    pub(super) fn ask(&mut self) {
        self.told = None;
        self.ends_with_trailers = false;
    }

    /// What its server has said so far.
    pub(super) fn told(&self) -> Option<Code> {
        self.told
    }

    /// Its server has answered with this head.
    pub(super) fn answered(&mut self, head: &ResponseHead) {
        self.see(&head.fields);
        let mut media_types = head.fields.values(FieldId::ContentType);
        let dialect = media_types.next().and_then(Dialect::of_media_type);
        // A length that was announced is not cut, nor is a coding whose end is not ours to write.
        let is_coded = head
            .fields
            .values_named(b"content-encoding")
            .next()
            .is_some();
        let is_open = head.status == 200 && head.length == ContentLength::Unknown && !is_coded;
        self.ends_with_trailers = dialect == Some(Dialect::Grpc) && is_open;
    }

    /// Tells whether its client can be given a status in trailers, once its response has begun: by HTTP's own, or
    /// by those that a translation makes content of.
    pub(super) fn takes_status(&self) -> bool {
        let is_translated = self.dialect != Dialect::Grpc && self.called.is_some();
        let reads = is_translated || (self.dialect == Dialect::Grpc && self.reads_trailers);
        self.ends_with_trailers && reads
    }

    /// Its server has sent these fields, as a head or as trailers.
    pub(super) fn see(&mut self, fields: &FieldBlock) {
        self.told = grpc::status(fields).or(self.told);
    }

    /// Its client is told of an error of the gateway's.
    pub(super) fn refuse(&mut self, code: Code) {
        self.refused = Some(code);
    }

    /// Counts it. `cut` is what it is to its client if its response was; `status` is HTTP's.
    pub(super) fn finish(&mut self, client: &ClientContext, cut: Option<Code>, status: u16) {
        let said = cut.or(self.refused).or(self.told);
        let code = said.unwrap_or_else(|| Code::of(status, None));
        if let Some(called) = self.called.take() {
            client.calls().ended(called, code, self.told);
        }
    }
}
