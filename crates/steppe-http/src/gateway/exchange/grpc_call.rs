//! The end of an exchange that is a call of gRPC, for its client and for the counts of calls.

use crate::field::{FieldBlock, FieldId};
use crate::gateway::client::ClientContext;
use crate::grpc::{self, Code, Dialect};
use crate::head::{ContentLength, RequestHead, ResponseHead};
use crate::metrics::Called;

/// A call of gRPC in flight.
#[derive(Debug)]
pub(super) struct GrpcCall {
    /// The dialect of its client.
    pub(super) dialect: Dialect,
    /// `None`: it was counted, or passes as it is in another dialect.
    called: Option<Called>,
    /// The last status of its server.
    server_code: Option<Code>,
    /// The status that the gateway gave its client instead.
    refusal_code: Option<Code>,
    /// The client reads trailers.
    reads_trailers: bool,
    /// The response has begun, and ends with trailers.
    ends_with_trailers: bool,
}

impl GrpcCall {
    /// The call that the request `head` is, if it is one.
    pub(super) fn begin(client: &ClientContext, head: &RequestHead) -> Option<Self> {
        let mut call = Self {
            dialect: Dialect::of(head)?,
            called: None,
            server_code: None,
            refusal_code: None,
            reads_trailers: head.version.carries_trailers() || head.takes_trailers,
            ends_with_trailers: false,
        };
        if call.dialect == Dialect::Grpc {
            call.count(client, head);
        }
        Some(call)
    }

    /// Begins to count it: the exchange is one of gRPC from here on.
    pub(super) fn count(&mut self, client: &ClientContext, head: &RequestHead) {
        let lease = client.exchange_lease();
        self.called = Some(client.calls().begin(head.path(), lease));
    }

    /// A server is asked.
    pub(super) fn ask(&mut self) {
        self.server_code = None;
        self.ends_with_trailers = false;
    }

    /// The last status of its server.
    pub(super) fn server_code(&self) -> Option<Code> {
        self.server_code
    }

    /// Sees the head of the server's response.
    pub(super) fn note_head(&mut self, head: &ResponseHead) {
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

    /// Sees fields of the server's, a head's or trailers.
    pub(super) fn see(&mut self, fields: &FieldBlock) {
        self.server_code = grpc::status(fields).or(self.server_code);
    }

    /// Notes the status that the gateway gives its client.
    pub(super) fn refuse(&mut self, code: Code) {
        self.refusal_code = Some(code);
    }

    /// Counts it. `cut` is the status of a response that was cut; `status` is HTTP's.
    pub(super) fn finish(&mut self, client: &ClientContext, cut: Option<Code>, status: u16) {
        let said = cut.or(self.refusal_code).or(self.server_code);
        let code = said.unwrap_or_else(|| Code::of(status, None));
        if let Some(called) = self.called.take() {
            client.calls().ended(called, code, self.server_code);
        }
    }
}
