//! Bounds the connections of an HTTP interface: their number, their number per peer, and the time for a header.

use crate::guard::{Guard, Rejection};
use crate::lifetime::Lifetime;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tower_service::Service;

/// Bytes that a connection reads ahead. This also bounds the header of a request.
const READ_BUFFER: usize = 32 << 10;

/// Bounds of an interface.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections. A quarter of them is reserved for this machine.
    pub connections: usize,
    /// Open connections of one IPv4 address, or of one IPv6 network of 64 bits.
    pub per_peer: usize,
    /// Time limit for the header of a request, and for an idle connection.
    pub header_timeout: Duration,
    /// Longest life of a connection, unless a handler moves its end ([`Lifetime`]). `None` sets no limit, for connections that stream.
    pub lifetime: Option<Duration>,
}

/// Counters of an interface.
#[derive(Debug, Default)]
pub struct Counts {
    open: AtomicU64,
    turned_away: AtomicU64,
    refused: [AtomicU64; Rejection::ALL.len()],
}

impl Counts {
    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections closed at once because a limit was reached.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Requests refused for this reason.
    pub fn refused(&self, rejection: Rejection) -> u64 {
        self.refused[rejection as usize].load(Ordering::Relaxed)
    }

    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Where a connection comes from.
pub trait Peer: Clone + Send + Sync + 'static {
    /// Its address; `None` for a peer on this machine that connects through a socket file.
    fn ip(&self) -> Option<IpAddr>;
}

impl Peer for SocketAddr {
    fn ip(&self) -> Option<IpAddr> {
        Some(SocketAddr::ip(self))
    }
}

impl Peer for tokio::net::unix::SocketAddr {
    fn ip(&self) -> Option<IpAddr> {
        None
    }
}

/// One connection in this many is reserved for this machine.
const KEPT_FOR_LOOPBACK: usize = 4;

/// The source that counts as one peer: an IPv4 address, or an IPv6 network of 64 bits.
fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}

/// The number of connections of each source.
#[derive(Debug, Default)]
struct Peers(Mutex<HashMap<IpAddr, usize>>);

/// The place of one connection in [`Peers`], released on drop.
#[derive(Debug)]
struct Place {
    peers: Arc<Peers>,
    ip: Option<IpAddr>,
}

impl Peers {
    fn enter(self: &Arc<Self>, ip: Option<IpAddr>, most: usize) -> Option<Place> {
        if let Some(ip) = ip {
            let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let count = peers.entry(ip).or_insert(0);
            if *count >= most {
                return None;
            }
            *count += 1;
        }
        Some(Place {
            peers: Arc::clone(self),
            ip,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(ip) = self.ip else { return };
        let mut peers = self.peers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = peers.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&ip);
            }
        }
    }
}

/// Serves `router` behind `guard` and never returns. A connection beyond the limits is closed at once, so it costs hardly any time and no
/// memory. Handlers find the peer as `ConnectInfo<L::Addr>`, and the [`Lifetime`] of the connection
/// as an extension.
pub async fn serve<L>(
    mut listener: L,
    router: Router,
    guard: Guard,
    limits: Limits,
    counts: Arc<Counts>,
) where
    L: Listener,
    L::Addr: Peer,
{
    let router = guarded(router, guard, Arc::clone(&counts));
    let places = Arc::new(Semaphore::new(limits.connections));
    let kept = limits.connections / KEPT_FOR_LOOPBACK;
    let far_places = Arc::new(Semaphore::new(limits.connections - kept));
    let peers = Arc::new(Peers::default());
    loop {
        let (io, peer) = listener.accept().await;
        let ip = peer.ip().map(source);
        let is_far = ip.is_some_and(|ip| !ip.is_loopback());
        let place = peers.enter(ip, limits.per_peer);
        let permit = Arc::clone(&places).try_acquire_owned();
        let far_permit = is_far.then(|| Arc::clone(&far_places).try_acquire_owned());
        let (Some(place), Ok(permit), Ok(far_permit)) = (place, permit, far_permit.transpose())
        else {
            Counts::add(&counts.turned_away);
            continue;
        };
        let (router, counts) = (router.clone(), Arc::clone(&counts));
        tokio::spawn(async move {
            Counts::add(&counts.open);
            let lifetime = Lifetime::new(limits.lifetime);
            let connection = connection(io, (peer, lifetime.clone()), router, limits);
            run(connection, lifetime, (place, permit, far_permit)).await;
            counts.open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Runs a connection until it ends or its lifetime is over. If its response becomes a stream, it gives its places back.
async fn run(connection: impl Future<Output = ()>, lifetime: Lifetime, places: impl Send) {
    let mut ended = pin!(async {
        tokio::select! {
            () = connection => {}
            () = lifetime.over() => {}
        }
    });
    tokio::select! {
        () = &mut ended => return,
        () = lifetime.streams() => drop(places),
    }
    ended.await;
}

fn guarded(router: Router, guard: Guard, counts: Arc<Counts>) -> Router {
    let guard = Arc::new(guard);
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        let (guard, counts) = (Arc::clone(&guard), Arc::clone(&counts));
        async move {
            let passed: Result<Response, Rejection> = guard.pass(request, next).await;
            passed.unwrap_or_else(|rejection| {
                Counts::add(&counts.refused[rejection as usize]);
                rejection.into_response()
            })
        }
    }))
}

async fn connection<I, P>(io: I, (peer, lifetime): (P, Lifetime), router: Router, limits: Limits)
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    P: Peer,
{
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut router = router.clone();
        let mut request = request.map(Body::new);
        let extensions = request.extensions_mut();
        extensions.insert(ConnectInfo(peer.clone()));
        extensions.insert(lifetime.clone());
        async move { router.call(request).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades()
        .await;
    // An error means that the peer broke off. There is nothing left to do.
    drop(served);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    #[test]
    fn an_ipv6_network_is_one_peer() {
        let peers = Arc::new(Peers::default());
        let enter = |ip: &str| peers.enter(Some(source(ip.parse().expect("an address"))), 2);
        let first = [enter("2001:db8::1"), enter("2001:db8::2")];
        assert!(first.iter().all(Option::is_some));
        assert!(enter("2001:db8::3").is_none());
        assert!(enter("2001:db8:0:1::1").is_some());
        let mapped = [enter("192.0.2.1"), enter("::ffff:192.0.2.1")];
        assert!(mapped.iter().all(Option::is_some));
        assert!(enter("192.0.2.1").is_none());
        drop(first);
        assert!(enter("2001:db8::3").is_some());
    }

    /// A peer that stays connected.
    #[derive(Clone, Debug)]
    struct Caller(IpAddr);

    impl Peer for Caller {
        fn ip(&self) -> Option<IpAddr> {
            Some(self.0)
        }
    }

    /// A listener that accepts one connection from each of these addresses, and no more.
    struct Queue(Vec<IpAddr>, Vec<tokio::io::DuplexStream>);

    impl Listener for Queue {
        type Io = tokio::io::DuplexStream;
        type Addr = Caller;

        async fn accept(&mut self) -> (Self::Io, Self::Addr) {
            let Some(ip) = self.0.pop() else {
                return std::future::pending().await;
            };
            let (near, far) = tokio::io::duplex(64);
            self.1.push(far);
            (near, Caller(ip))
        }

        fn local_addr(&self) -> std::io::Result<Self::Addr> {
            Ok(Caller(std::net::Ipv4Addr::LOCALHOST.into()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_with_its_lifetime_unless_it_streams() {
        let lifetime = || Lifetime::new(Some(Duration::from_secs(120)));
        let (place, released) = tokio::sync::oneshot::channel::<()>();
        let start = tokio::time::Instant::now();
        run(std::future::pending(), lifetime(), place).await;
        assert_eq!(start.elapsed(), Duration::from_secs(120));
        drop(released);

        let (place, released) = tokio::sync::oneshot::channel::<()>();
        let lifetime = lifetime();
        lifetime.stream();
        let streaming = tokio::spawn(run(std::future::pending(), lifetime.clone(), place));
        assert!(released.await.is_err(), "its place is free at once");
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert!(!streaming.is_finished());
        lifetime.end_in(Duration::ZERO);
        streaming.await.expect("it ends");
    }

    #[tokio::test]
    async fn a_quarter_of_the_connections_is_kept_for_this_machine() {
        let limits = Limits {
            connections: 8,
            per_peer: 3,
            header_timeout: Duration::from_secs(600),
            lifetime: None,
        };
        let counts = Arc::new(Counts::default());
        let far = (1..=9_u8).map(|last| IpAddr::from([192, 0, 2, last]));
        let mut queue: Vec<IpAddr> = far.collect();
        // The queue pops from the end, so these connect last.
        queue.splice(0..0, [IpAddr::from([127, 0, 0, 1]); 2]);
        let served = serve(
            Queue(queue, Vec::new()),
            Router::new(),
            Guard::new(1_000),
            limits,
            Arc::clone(&counts),
        );
        let waited = timeout(Duration::from_millis(200), served).await;
        assert!(waited.is_err(), "it serves forever");
        assert_eq!((counts.open(), counts.turned_away()), (8, 3));
    }
}
