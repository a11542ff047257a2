//! The body of a response whose answer is in flight until the body is sent or given up.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};

use super::Answer;

/// A body, and the answer that it is.
#[derive(Debug)]
pub struct Answering<B> {
    body: B,
    _answer: Answer,
}

impl<B> Answering<B> {
    /// The body of an answer.
    #[must_use]
    pub const fn new(body: B, answer: Answer) -> Self {
        Self {
            body,
            _answer: answer,
        }
    }
}

impl<B: Body + Unpin> Body for Answering<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
