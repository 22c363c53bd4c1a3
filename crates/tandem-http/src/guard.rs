//! Decides which requests pass.
//!
//! An interface must distinguish an operator's tool, a web page of ours, and a foreign web page that the operator's browser has open. The
//! foreign page can also reach a loopback address. Three checks reject it:
//!
//! - **Host.** With DNS rebinding, a foreign page points its own name at our address and so becomes "same origin". The browser then sends
//!   that name as Host. Host must therefore be `localhost`, a configured name, or a literal address. A literal address is always accepted:
//!   it needs no DNS, so its page was served from that address.
//! - **Origin.** Browsers send it with every cross-origin request that changes anything. It must be the origin of the request itself.
//! - **Token.** If a token is configured, every caller must send it. An interface that other machines can reach needs one.

use crate::origin::{authority, is_same, literal};
use crate::token::Token;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

/// The cookie in which a browser keeps the token.
const COOKIE: &str = "tandem_token";

/// Decides which requests are let through.
#[derive(Clone, Debug)]
pub struct Guard {
    /// Names that Host may carry in addition to `localhost` and literal addresses, in lower case.
    pub hosts: Vec<String>,
    /// The token that callers must send; `None` if they need none.
    pub token: Option<Token>,
    /// Paths with this prefix need no token. If it is empty, all paths need one.
    pub open: &'static str,
    /// Whether a page may log in with `?token=…`, which the browser then keeps as a cookie.
    pub pages: bool,
    /// Whether callers come over a Unix socket, whose file permissions identify them. Host, Origin and token are then not checked; the
    /// limits of the body still apply.
    pub local: bool,
    /// Largest accepted body, in bytes.
    pub largest_body: usize,
    /// Time limit for a body.
    pub body_timeout: Duration,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Host is missing, repeated or malformed.
    BadHost,
    /// Host is not a name of this interface.
    ForeignHost,
    /// A page of another origin sent it.
    ForeignOrigin,
    /// The token is missing or wrong.
    Token,
    /// The body is too large.
    TooLarge,
    /// The body did not arrive in time.
    Slow,
}

impl Rejection {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::BadHost,
        Self::ForeignHost,
        Self::ForeignOrigin,
        Self::Token,
        Self::TooLarge,
        Self::Slow,
    ];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::BadHost => "bad_host",
            Self::ForeignHost => "foreign_host",
            Self::ForeignOrigin => "foreign_origin",
            Self::Token => "token",
            Self::TooLarge => "too_large",
            Self::Slow => "slow",
        }
    }

    const fn status(self) -> StatusCode {
        match self {
            Self::BadHost => StatusCode::BAD_REQUEST,
            Self::ForeignHost => StatusCode::MISDIRECTED_REQUEST,
            Self::ForeignOrigin => StatusCode::FORBIDDEN,
            Self::Token => StatusCode::UNAUTHORIZED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
        }
    }

    const fn explanation(self) -> &'static str {
        match self {
            Self::BadHost => "the request needs exactly one valid Host header field",
            Self::ForeignHost => {
                "Host must be localhost, an IP address or a configured name of this interface"
            }
            Self::ForeignOrigin => "requests from pages of other origins are not allowed",
            Self::Token => "a token is required: Authorization: Bearer TOKEN",
            Self::TooLarge => "the request body is too large",
            Self::Slow => "the request body did not arrive in time",
        }
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.explanation() }).to_string() + "\n";
        let kind = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.status(), kind, body).into_response();
        if self == Self::Token {
            let challenge = header::HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl Guard {
    /// A guard that accepts `localhost` and literal addresses as Host, without a token, and bodies of at most `largest_body` bytes within
    /// ten seconds.
    pub fn new(largest_body: usize) -> Self {
        Self {
            hosts: Vec::new(),
            token: None,
            open: "",
            pages: false,
            local: false,
            largest_body,
            body_timeout: Duration::from_secs(10),
        }
    }

    /// Refuses the request, or reads its whole body and passes it on. The caller counts refusals with `refused`.
    ///
    /// # Errors
    /// Why the request is refused.
    pub async fn pass(&self, request: Request, next: Next) -> Result<Response, Rejection> {
        let (parts, body) = request.into_parts();
        self.judge(&parts)?;
        if let Some(response) = self.log_in(&parts) {
            return Ok(response);
        }
        let read = axum::body::to_bytes(body, self.largest_body);
        let body = timeout(self.body_timeout, read)
            .await
            .map_err(|_| Rejection::Slow)?
            .map_err(|_| Rejection::TooLarge)?;
        Ok(next.run(Request::from_parts(parts, body.into())).await)
    }

    fn judge(&self, parts: &Parts) -> Result<(), Rejection> {
        if self.local {
            return Ok(());
        }
        let authority = authority(parts.version, &parts.uri, &parts.headers)
            .map_err(|()| Rejection::BadHost)?;
        if let Some(authority) = &authority {
            let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
            let is_ours =
                host == "localhost" || literal(authority).is_some() || self.hosts.contains(&host);
            if !is_ours {
                return Err(Rejection::ForeignHost);
            }
        }
        let mut origins = parts.headers.get_all(header::ORIGIN).iter();
        let is_own = |origin| {
            authority
                .as_ref()
                .is_some_and(|authority| is_same(origin, authority))
        };
        if !origins.all(is_own) {
            return Err(Rejection::ForeignOrigin);
        }
        let is_open = !self.open.is_empty() && parts.uri.path().starts_with(self.open);
        match &self.token {
            Some(token) if !is_open && !self.shows(token, parts) => Err(Rejection::Token),
            _ => Ok(()),
        }
    }

    fn shows(&self, token: &Token, parts: &Parts) -> bool {
        bearer(&parts.headers).is_some_and(|shown| token.is(shown))
            || self.pages
                && (cookie(&parts.headers).is_some_and(|shown| token.is(shown))
                    || parts.method == Method::GET
                        && in_query(parts.uri.query()).is_some_and(|shown| token.is(shown)))
    }

    /// Redirects a request for a page with the token in its query. The browser keeps the token as a cookie, and the address no longer shows
    /// it.
    fn log_in(&self, parts: &Parts) -> Option<Response> {
        let shown = in_query(parts.uri.query()).filter(|_| self.pages && self.token.is_some())?;
        let shown = std::str::from_utf8(shown).ok()?;
        let cookie = format!("{COOKIE}={shown}; HttpOnly; SameSite=Strict; Path=/");
        let headers = [
            (header::LOCATION, parts.uri.path().to_owned()),
            (header::SET_COOKIE, cookie),
            (header::CACHE_CONTROL, "no-store".to_owned()),
        ];
        Some((StatusCode::SEE_OTHER, headers).into_response())
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

fn cookie(headers: &HeaderMap) -> Option<&[u8]> {
    let values = headers.get_all(header::COOKIE).iter();
    let mut pairs = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    pairs.find_map(|pair| {
        let value = pair.trim_ascii().strip_prefix(COOKIE.as_bytes())?;
        value.strip_prefix(b"=")
    })
}

fn in_query(query: Option<&str>) -> Option<&[u8]> {
    let mut pairs = query?.split('&');
    pairs.find_map(|pair| Some(pair.strip_prefix("token=")?.as_bytes()))
}

/// Whether other machines can reach a listener at this address.
pub fn is_beyond_loopback(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    const TOKEN: &str = "0123456789abcdef";

    fn judged(
        guard: &Guard,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> Result<(), Rejection> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, _) = request.body(Body::empty()).expect("a request").into_parts();
        guard.judge(&parts)
    }

    #[test]
    fn host_must_be_a_literal_address_localhost_or_a_configured_name() {
        let guard = Guard {
            hosts: vec!["admin.example.org".to_owned()],
            ..Guard::new(1)
        };
        for host in [
            "127.0.0.1:8060",
            "127.0.0.1",
            "[::1]:8060",
            "[::ffff:127.0.0.1]:8060",
            "192.0.2.1:9000",
            "localhost:8060",
            "LOCALHOST",
            "localhost.:8060",
            "Admin.Example.ORG:8060",
        ] {
            assert_eq!(
                judged(&guard, "GET", "/", &[("host", host)]),
                Ok(()),
                "{host}"
            );
        }
        for (host, rejection) in [
            ("evil.example:8060", Rejection::ForeignHost),
            ("localhost.evil.example", Rejection::ForeignHost),
            ("127.0.0.1.evil.example", Rejection::ForeignHost),
            ("2130706433", Rejection::ForeignHost),
            ("admin.example.org.evil.example", Rejection::ForeignHost),
            ("localhost@evil.example", Rejection::BadHost),
            ("", Rejection::BadHost),
            ("a b", Rejection::BadHost),
        ] {
            let found = judged(&guard, "GET", "/", &[("host", host)]);
            assert_eq!(found, Err(rejection), "{host}");
        }
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(judged(&guard, "GET", "/", &twice), Err(Rejection::BadHost));
        assert_eq!(judged(&guard, "GET", "/", &[]), Err(Rejection::BadHost));
        let other = judged(
            &guard,
            "GET",
            "http://evil.example/",
            &[("host", "localhost")],
        );
        assert_eq!(other, Err(Rejection::BadHost));
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let guard = Guard::new(1);
        for (origin, expected) in [
            ("http://127.0.0.1:8060", Ok(())),
            ("https://127.0.0.1:8060", Ok(())),
            ("http://127.0.0.1", Err(Rejection::ForeignOrigin)),
            ("http://127.0.0.1:8061", Err(Rejection::ForeignOrigin)),
            ("http://evil.example", Err(Rejection::ForeignOrigin)),
            ("null", Err(Rejection::ForeignOrigin)),
            ("", Err(Rejection::ForeignOrigin)),
        ] {
            let headers = [("host", "127.0.0.1:8060"), ("origin", origin)];
            assert_eq!(
                judged(&guard, "POST", "/rpc", &headers),
                expected,
                "{origin}"
            );
        }
    }

    #[test]
    fn the_token_is_asked_for_everywhere_but_where_it_is_open() {
        let guard = Guard {
            token: Some(Token::new(TOKEN).expect("long enough")),
            open: "/health/",
            ..Guard::new(1)
        };
        let with = |uri, value: &str| {
            judged(
                &guard,
                "GET",
                uri,
                &[("host", "localhost"), ("authorization", value)],
            )
        };
        assert_eq!(with("/metrics", &format!("Bearer {TOKEN}")), Ok(()));
        assert_eq!(with("/metrics", &format!("bearer {TOKEN}")), Ok(()));
        assert_eq!(with("/health/live", ""), Ok(()));
        for wrong in [
            "",
            TOKEN,
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcdeF",
            "Basic 0123456789abcdef",
        ] {
            assert_eq!(with("/metrics", wrong), Err(Rejection::Token), "{wrong}");
        }
        let headers = [
            ("host", "localhost"),
            ("cookie", "tandem_token=0123456789abcdef"),
        ];
        assert_eq!(
            judged(&guard, "GET", "/", &headers),
            Err(Rejection::Token),
            "it has no pages"
        );
        let query = format!("/metrics?token={TOKEN}");
        assert_eq!(with(&query, ""), Err(Rejection::Token));
    }

    #[test]
    fn a_page_logs_in_once_and_keeps_the_token_as_a_cookie() {
        let guard = Guard {
            token: Some(Token::new(TOKEN).expect("long enough")),
            pages: true,
            ..Guard::new(1)
        };
        let uri = format!("/?token={TOKEN}");
        let host = ("host", "localhost");
        assert_eq!(judged(&guard, "GET", &uri, &[host]), Ok(()));
        assert_eq!(judged(&guard, "POST", &uri, &[host]), Err(Rejection::Token));
        let request = Request::builder().uri(&uri).body(Body::empty());
        let (parts, _) = request.expect("a request").into_parts();
        let response = guard.log_in(&parts).expect("a redirection");
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        assert_eq!(response.headers()[header::LOCATION], "/");
        let kept = response.headers()[header::SET_COOKIE]
            .to_str()
            .expect("text");
        let kept = kept.split(';').next().expect("a pair");
        let cookie = format!("a=b; {kept}");
        assert_eq!(
            judged(&guard, "GET", "/state", &[host, ("cookie", &cookie)]),
            Ok(())
        );
        let wrong = [host, ("cookie", "tandem_token=0123456789abcdeF")];
        assert_eq!(
            judged(&guard, "GET", "/state", &wrong),
            Err(Rejection::Token)
        );
    }
}
