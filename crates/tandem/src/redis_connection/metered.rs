//! A stream that ends with an error if its peer sends more than it may. The parser behind it keeps an incomplete response in memory,
//! whatever length the peer claims for it.
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that may still be read.
#[derive(Clone, Debug)]
pub(super) struct Allowance(Arc<AtomicUsize>);

impl Allowance {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Allows so many bytes from now on, whatever was left.
    pub(super) fn renew(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Whether the peer has sent all that it may, or has tried to send more.
    pub(super) fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// A stream with an allowance.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    left: Allowance,
}

impl<S> Metered<S> {
    pub(super) const fn new(stream: S, left: Allowance) -> Self {
        Self { stream, left }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        let left = self.left.0.load(Ordering::Relaxed);
        self.left.renew(left.saturating_sub(read));
        if read > left {
            return Poll::Ready(Err(io::Error::other("it sends too much")));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
