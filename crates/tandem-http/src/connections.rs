//! The connections of an HTTP interface: how many, how many of one peer, how long a header may take.

use crate::guard::{Guard, Refusal};
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
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower_service::Service;

/// Bytes that one connection reads ahead: bounds its header, too.
const READ_BUFFER: usize = 32 << 10;

/// Bounds of an interface.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections of one address at a time.
    pub per_peer: usize,
    /// How long the header of a request may take, and how long a connection may be idle.
    pub header_timeout: Duration,
    /// How long a connection may live; `None`: as long as it likes, for those that stream.
    pub lifetime: Option<Duration>,
}

/// What an interface counts.
#[derive(Debug, Default)]
pub struct Counts {
    open: AtomicU64,
    turned_away: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
}

impl Counts {
    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections that were closed at once because there were too many.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Requests that were refused for this.
    pub fn refused(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize].load(Ordering::Relaxed)
    }

    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Where a connection comes from.
pub trait Peer: Clone + Send + Sync + 'static {
    /// Its address; `None`: this machine, by a file.
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

/// How many connections each address has.
#[derive(Debug, Default)]
struct Peers(Mutex<HashMap<IpAddr, usize>>);

/// One connection's place in [`Peers`]; it is given back when this goes.
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

/// Serves `router` behind `guard` for ever. A connection beyond the limits is closed at once, so that it costs a moment and no memory.
/// Handlers find the peer as `ConnectInfo<L::Addr>`.
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
    let peers = Arc::new(Peers::default());
    loop {
        let (io, peer) = listener.accept().await;
        let place = peers.enter(peer.ip(), limits.per_peer);
        let permit = Arc::clone(&places).try_acquire_owned();
        let (Some(place), Ok(permit)) = (place, permit) else {
            Counts::add(&counts.turned_away);
            continue;
        };
        let (router, counts) = (router.clone(), Arc::clone(&counts));
        tokio::spawn(async move {
            Counts::add(&counts.open);
            let connection = connection(io, peer, router, limits);
            match limits.lifetime {
                Some(lifetime) => drop(timeout(lifetime, connection).await),
                None => connection.await,
            }
            counts.open.fetch_sub(1, Ordering::Relaxed);
            drop((place, permit));
        });
    }
}

fn guarded(router: Router, guard: Guard, counts: Arc<Counts>) -> Router {
    let guard = Arc::new(guard);
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        let (guard, counts) = (Arc::clone(&guard), Arc::clone(&counts));
        async move {
            let passed: Result<Response, Refusal> = guard.pass(request, next).await;
            passed.unwrap_or_else(|refusal| {
                Counts::add(&counts.refused[refusal as usize]);
                refusal.into_response()
            })
        }
    }))
}

async fn connection<I, P>(io: I, peer: P, router: Router, limits: Limits)
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    P: Peer,
{
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut router = router.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer.clone()));
        async move { router.call(request).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades()
        .await;
    // A peer that broke off has been dealt with.
    drop(served);
}
