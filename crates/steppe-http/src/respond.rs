//! One whole response from the configuration or a filter: the `respond` upstream.

use std::task::{Context, Poll};

use steppe_mem::{Buffer, Lease};

use crate::error::GatewayError;
use crate::exchange::Part;
use crate::field::{FieldBlock, FieldList, Span};
use crate::head::{ContentLength, ResponseHead, Version};
use crate::local::Responder;
use crate::status;

/// A response made by the gateway itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Respond {
    /// Final status code, 200 to 599.
    pub status: u16,
    /// Content, at most `limits::RESPOND_BYTES_MAX`.
    pub body: Vec<u8>,
    /// Further fields; framing and hop-by-hop fields are refused by the reader.
    pub fields: Vec<(String, String)>,
}

/// A [`Respond`] that is being sent.
#[derive(Debug)]
pub struct Responding {
    head: Option<ResponseHead>,
    content: Option<Buffer>,
}

impl Responding {
    /// A response to one request, charged to `lease`.
    ///
    /// # Errors
    /// Where the budget has no room.
    pub fn new(respond: &Respond, method: &[u8], lease: &Lease) -> Result<Self, GatewayError> {
        let reason = status::reason(respond.status);
        let mut fields = FieldBlock::new(Buffer::take(lease, reason.len())?, FieldList::take());
        let reason = if reason.is_empty() {
            Span::default()
        } else {
            fields.put(reason.as_bytes())?
        };
        for (name, value) in &respond.fields {
            fields.append(name.as_bytes(), value.as_bytes())?;
        }
        let is_to_head = method == b"HEAD";
        let can_have_content = !matches!(respond.status, 204 | 304);
        let has_content = can_have_content && !is_to_head && !respond.body.is_empty();
        let length = if has_content {
            ContentLength::Known(respond.body.len() as u64)
        } else {
            ContentLength::Empty
        };
        if can_have_content && !has_content {
            fields.append(b"content-length", respond.body.len().to_string().as_bytes())?;
        }
        let content = has_content.then(|| {
            let mut content = Buffer::take(lease, respond.body.len())?;
            content.put(&respond.body).expect("it was taken for it");
            Ok::<_, GatewayError>(content)
        });
        let (version, status) = (Version::Http11, respond.status);
        let head = ResponseHead {
            fields,
            version,
            status,
            length,
            reason,
            upgrade: None,
            is_connected: false,
        };
        Ok(Self {
            head: Some(head),
            content: content.transpose()?,
        })
    }
}

impl Responder for Responding {
    fn poll_head(&mut self, _: &mut Context<'_>) -> Poll<Result<ResponseHead, GatewayError>> {
        Poll::Ready(self.head.take().ok_or_else(GatewayError::bad_response))
    }

    fn poll_part(&mut self, _: &mut Context<'_>) -> Poll<Result<Part, GatewayError>> {
        Poll::Ready(Ok(self
            .content
            .take()
            .map_or(Part::End(None), |content| Part::Chunk(content.into()))))
    }

    fn is_starved(&self) -> bool {
        false
    }
}
