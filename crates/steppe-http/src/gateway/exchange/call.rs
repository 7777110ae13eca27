//! What an exchange that is a call of gRPC learns of how it ends.

use crate::field::FieldBlock;
use crate::gateway::client::ClientContext;
use crate::grpc::{self, Code, Dialect};
use crate::head::RequestHead;
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
}

impl Call {
    /// Of the request `head`, if it is one.
    pub(super) fn begin(client: &ClientContext, head: &RequestHead) -> Option<Self> {
        let mut call = Self {
            dialect: Dialect::of(head)?,
            called: None,
            told: None,
            refused: None,
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
    }

    /// What its server has said so far.
    pub(super) fn told(&self) -> Option<Code> {
        self.told
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
