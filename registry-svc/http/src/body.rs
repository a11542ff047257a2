//! The bodies of requests, as the stream that the store takes, and those of responses.
//!
//! Octets are handed on as hyper has them, never copied.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tokio_stream::{Stream, StreamExt};

use super::log::Exchange;
use crate::error::{Code, Refused};

/// Any error of a body.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A stream of octets, as the store and peers give them.
pub type Octets = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The most bytes that are read of a rejected body, so that its client gets to read the response: a
/// connection that is closed with unread bytes is reset, and the response is lost.
const LINGER_SIZE: u64 = 16 << 20;

/// How long that is read.
const LINGER_TIME: Duration = Duration::from_secs(2);

//--- Received

/// How far a body has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// There is more to come.
    Open,
    /// All of it was read.
    Complete,
    /// It is longer than was said.
    TooLong,
    /// Nothing came for too long.
    Stalled,
    /// Its client is gone, or speaks no HTTP.
    Broken,
}

/// A body that is being received.
pub(super) struct Received {
    inner: Option<UnsyncBoxBody<Bytes, BoxError>>,
    idle: Duration,
    stall: Option<Pin<Box<Sleep>>>,
    has_moved: bool,
    taken: u64,
    most: Option<u64>,
    end: End,
}

impl Received {
    /// `body`, given up when nothing comes for `idle`.
    pub(super) fn new<B>(body: B, idle: Duration) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let is_empty = body.is_end_stream();
        Self {
            inner: (!is_empty).then(|| body.map_err(Into::into).boxed_unsync()),
            idle,
            stall: None,
            has_moved: false,
            taken: 0,
            most: None,
            end: match is_empty {
                true => End::Complete,
                false => End::Open,
            },
        }
    }

    /// No body.
    pub(super) fn none() -> Self {
        Self::new(Full::new(Bytes::new()), Duration::ZERO)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.inner.is_none() && self.taken == 0
    }

    /// Octets read so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// How it ended, if it did.
    #[cfg(test)]
    pub(super) fn end(&self) -> End {
        self.end
    }

    /// Refuses more than `most` octets.
    pub(super) fn limit(&mut self, most: u64) {
        self.most = Some(most);
    }

    /// All of it, if it is no longer than `most`.
    pub(super) async fn whole(&mut self, most: usize) -> Result<Bytes, Refused> {
        self.limit(most as u64);
        let mut pieces: Vec<Bytes> = Vec::new();
        while let Some(piece) = self.next().await {
            match piece {
                Ok(piece) => pieces.push(piece),
                Err(_) => break,
            }
        }
        self.failure()?;
        Ok(match pieces.len() {
            0 | 1 => pieces.pop().unwrap_or_default(),
            _ => pieces.concat().into(),
        })
    }

    /// The response for a body that failed.
    pub(super) fn failure(&self) -> Result<(), Refused> {
        match self.end {
            End::Open | End::Complete => Ok(()),
            End::TooLong => Err(Refused::from(Code::SizeInvalid).closing()),
            End::Stalled => Err(Refused::plain(408).closing()),
            End::Broken => Err(Refused::plain(400).closing()),
        }
    }

    /// Reads a little more of a rejected body, beside the response.
    pub(super) fn linger(self) {
        let Some(mut inner) = self.inner.filter(|_| self.end != End::Complete) else {
            return;
        };
        tokio::spawn(async move {
            let mut left = LINGER_SIZE;
            let reading = async {
                while let Some(Ok(frame)) = inner.frame().await {
                    let length = frame.data_ref().map_or(0, Bytes::len);
                    let Some(rest) = left.checked_sub(length as u64) else {
                        break;
                    };
                    left = rest;
                }
            };
            drop(tokio::time::timeout(LINGER_TIME, reading).await);
        });
    }

    fn ended(&mut self, end: End) {
        self.end = end;
        self.stall = None;
    }
}

impl Stream for Received {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.end != End::Open {
            return Poll::Ready(None);
        }
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        loop {
            match Pin::new(&mut *inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    this.has_moved = true;
                    // Trailers say nothing here.
                    let Ok(octets) = frame.into_data() else {
                        continue;
                    };
                    this.taken = this.taken.saturating_add(octets.len() as u64);
                    if this.most.is_some_and(|most| this.taken > most) {
                        this.ended(End::TooLong);
                        return Poll::Ready(Some(Err(io::ErrorKind::InvalidData.into())));
                    }
                    return Poll::Ready(Some(Ok(octets)));
                }
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(%error, "Request body ended early");
                    this.ended(End::Broken);
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
                }
                Poll::Ready(None) => {
                    this.ended(End::Complete);
                    return Poll::Ready(None);
                }
                Poll::Pending => break,
            }
        }
        let idle = this.idle;
        let deadline = || Instant::now() + idle;
        let stall = match &mut this.stall {
            Some(stall) if !this.has_moved => stall,
            Some(stall) => {
                stall.as_mut().reset(deadline());
                stall
            }
            none => none.insert(Box::pin(tokio::time::sleep_until(deadline()))),
        };
        this.has_moved = false;
        ready!(stall.as_mut().poll(cx));
        this.ended(End::Stalled);
        Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())))
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received")
            .field("taken", &self.taken)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

//--- Body

/// The body of an answer.
pub struct Body {
    content: Content,
    /// Logged and counted when the body is gone.
    exchange: Option<Box<Exchange>>,
}

enum Content {
    Nothing,
    Octets(Bytes),
    /// Ends with an error, and with it the connection, unless exactly `left` octets come.
    Stream {
        stream: Octets,
        left: u64,
    },
}

impl Body {
    /// No octets.
    #[must_use]
    pub fn empty() -> Self {
        Self::from(Bytes::new())
    }

    /// Exactly `length` octets of `stream`.
    #[must_use]
    pub fn stream(stream: Octets, length: u64) -> Self {
        Self {
            content: match length {
                0 => Content::Nothing,
                left => Content::Stream { stream, left },
            },
            exchange: None,
        }
    }

    /// Reports the exchange when the body is dropped.
    pub(super) fn told(&mut self, exchange: Box<Exchange>) {
        self.exchange = Some(exchange);
    }

    /// Takes the octets away: an answer to HEAD.
    pub(super) fn clear(&mut self) {
        self.content = Content::Nothing;
    }

    fn sent(&mut self, length: usize) {
        if let Some(exchange) = &mut self.exchange {
            exchange.sent += length as u64;
        }
    }
}

impl From<Bytes> for Body {
    fn from(octets: Bytes) -> Self {
        Self {
            content: match octets.is_empty() {
                true => Content::Nothing,
                false => Content::Octets(octets),
            },
            exchange: None,
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(octets: Vec<u8>) -> Self {
        Self::from(Bytes::from(octets))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let octets = match &mut self.content {
            Content::Nothing => return Poll::Ready(None),
            Content::Octets(octets) => {
                let octets = std::mem::take(octets);
                self.content = Content::Nothing;
                octets
            }
            Content::Stream { stream, left } => match ready!(stream.as_mut().poll_next(cx)) {
                Some(Ok(octets)) => {
                    let Some(rest) = left.checked_sub(octets.len() as u64) else {
                        self.content = Content::Nothing;
                        return Poll::Ready(Some(Err(io::ErrorKind::InvalidData.into())));
                    };
                    *left = rest;
                    if rest == 0 {
                        self.content = Content::Nothing;
                    }
                    octets
                }
                Some(Err(error)) => {
                    self.content = Content::Nothing;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    self.content = Content::Nothing;
                    return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                }
            },
        };
        self.sent(octets.len());
        Poll::Ready(Some(Ok(Frame::data(octets))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match &self.content {
            Content::Nothing => 0,
            Content::Octets(octets) => octets.len() as u64,
            Content::Stream { left, .. } => *left,
        })
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("length", &self.size_hint().exact())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;

    use super::*;

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(future)
    }

    fn octets(pieces: &'static [&'static str]) -> Octets {
        let pieces = pieces
            .iter()
            .map(|piece| Ok(Bytes::from_static(piece.as_bytes())));
        Box::pin(tokio_stream::iter(pieces))
    }

    fn whole(text: &'static str) -> Received {
        Received::new(Full::new(Bytes::from(text)), Duration::from_secs(1))
    }

    #[test]
    fn a_body_is_read_to_its_end() {
        block_on(async {
            let mut received = whole("hello");
            assert!(!received.is_empty());
            assert_eq!(received.next().await.unwrap().unwrap(), "hello");
            assert!(received.next().await.is_none());
            assert_eq!((received.taken(), received.end()), (5, End::Complete));
            assert!(whole("").is_empty());
            assert_eq!(whole("").end(), End::Complete);
        });
    }

    #[test]
    fn a_body_that_is_longer_than_it_was_said_to_be_is_refused() {
        block_on(async {
            let mut received = whole("hello");
            received.limit(4);
            let error = received.next().await.unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert_eq!(received.end(), End::TooLong);
            assert!(received.next().await.is_none());
        });
    }

    #[test]
    fn a_body_that_stands_still_is_given_up_and_one_that_moves_is_not() {
        block_on(async {
            let (sender, receiver) = tokio::sync::mpsc::channel(1);
            let sending = tokio::spawn(async move {
                // Together longer than a body may stand still; a busy machine has each step take longer,
                // but not fifty times as long.
                for _ in 0..60 {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    let frame = Frame::data(Bytes::from_static(b"a"));
                    sender.send(Ok::<_, io::Error>(frame)).await.unwrap();
                }
            });
            let body = StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(receiver));
            let mut received = Received::new(body, Duration::from_secs(5));
            while let Some(piece) = received.next().await {
                piece.unwrap();
            }
            assert_eq!((received.taken(), received.end()), (60, End::Complete));
            sending.await.unwrap();
            let never = tokio_stream::pending::<io::Result<Frame<Bytes>>>();
            let mut received = Received::new(StreamBody::new(never), Duration::from_millis(20));
            let error = received.next().await.unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(received.end(), End::Stalled);
        });
    }

    #[test]
    fn an_answer_has_exactly_its_length() {
        block_on(async {
            let body = Body::stream(octets(&["he", "llo"]), 5);
            assert_eq!(body.size_hint().exact(), Some(5));
            assert_eq!(body.collect().await.unwrap().to_bytes(), "hello");
            for wrong in [4, 6] {
                let body = Body::stream(octets(&["he", "llo"]), wrong);
                assert!(body.collect().await.is_err(), "{wrong}");
            }
            let nothing = Body::stream(octets(&["hello"]), 0);
            assert!(nothing.is_end_stream());
        });
    }

    #[test]
    fn an_answer_to_head_has_no_octets() {
        block_on(async {
            let mut body = Body::from(Bytes::from_static(b"hello"));
            body.clear();
            assert!(body.is_end_stream());
            assert_eq!(body.collect().await.unwrap().to_bytes(), "");
        });
    }
}
