//! HTTP requests of the controller: to the nodes' admin interfaces, and to the API server of Kubernetes. One connection for each request,
//! because there are few.

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL cannot be used.
    #[error("the URL {0} is not http://HOST:PORT or https://HOST:PORT")]
    Url(String),
    /// The server cannot be reached, or breaks off.
    #[error("{server}: {problem}")]
    Broken {
        /// Host and port.
        server: String,
        /// The system's words.
        problem: String,
    },
    /// The server did not answer in time.
    #[error("{server} did not answer within {} s", .within.as_secs_f32())]
    Late {
        /// Host and port.
        server: String,
        /// How long it had.
        within: Duration,
    },
    /// The server answers, but not as asked.
    #[error("{server} answers {status}: {problem}")]
    Refused {
        /// Host and port.
        server: String,
        /// The status.
        status: StatusCode,
        /// The beginning of the body.
        problem: String,
    },
}

/// A server, and how to reach it.
#[derive(Clone)]
pub struct Client {
    /// Host and port.
    authority: String,
    host: String,
    tls: Option<Arc<ClientConfig>>,
    token: Option<String>,
    /// Time until the head of a response, and again until the end of its body.
    within: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.authority) // Without the token.
    }
}

impl Client {
    /// A server that takes plain HTTP.
    pub fn plain(authority: String, token: Option<String>, within: Duration) -> Self {
        Self {
            host: String::new(),
            authority,
            tls: None,
            token,
            within,
        }
    }

    /// A server at `http://HOST:PORT` or `https://HOST:PORT`, of which only https needs `tls`.
    ///
    /// # Errors
    /// [`ClientError::Url`].
    pub fn new(
        url: &str,
        tls: Arc<ClientConfig>,
        token: Option<String>,
        within: Duration,
    ) -> Result<Self, ClientError> {
        let wrong = || ClientError::Url(url.to_owned());
        let parsed: Uri = url.parse().map_err(|_| wrong())?;
        let (tls, port) = match parsed.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(tls), 443),
            _ => return Err(wrong()),
        };
        let host = parsed.host().ok_or_else(wrong)?;
        let port = parsed.port_u16().unwrap_or(port);
        Ok(Self {
            authority: format!("{host}:{port}"),
            host: host.trim_matches(['[', ']']).to_owned(),
            tls,
            token,
            within,
        })
    }

    /// The body of a GET, of at most `largest` bytes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn text(&self, target: &str, largest: usize) -> Result<Bytes, ClientError> {
        let response = self.request(Method::GET, target, Bytes::new()).await?;
        self.body(response, largest).await
    }

    /// The body of the response to a POST of JSON, of at most `largest` bytes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post(
        &self,
        target: &str,
        json: String,
        largest: usize,
    ) -> Result<Bytes, ClientError> {
        let response = self.request(Method::POST, target, json.into()).await?;
        self.body(response, largest).await
    }

    /// The body of the response to a PATCH by a JSON merge patch (RFC 7396), of at most `largest` bytes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(crate) async fn merge(
        &self,
        target: &str,
        json: String,
        largest: usize,
    ) -> Result<Bytes, ClientError> {
        let response = self.request(Method::PATCH, target, json.into()).await?;
        self.body(response, largest).await
    }

    /// The response to a GET, whose body is still to be read, for as long as it lasts.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn stream(&self, target: &str) -> Result<Incoming, ClientError> {
        let response = self.request(Method::GET, target, Bytes::new()).await?;
        Ok(response.into_body())
    }

    /// Why a stream ended.
    pub(crate) fn broken(&self, problem: impl fmt::Display) -> ClientError {
        ClientError::Broken {
            server: self.authority.clone(),
            problem: problem.to_string(),
        }
    }

    fn late(&self) -> ClientError {
        ClientError::Late {
            server: self.authority.clone(),
            within: self.within,
        }
    }

    async fn request(
        &self,
        method: Method,
        target: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let sent = timeout(self.within, self.send(method, target, body));
        let response = sent.await.map_err(|_| self.late())??;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body(response, 4_096).await.unwrap_or_default();
        Err(ClientError::Refused {
            server: self.authority.clone(),
            status,
            problem: String::from_utf8_lossy(&body)
                .trim()
                .chars()
                .take(300)
                .collect(),
        })
    }

    async fn send(
        &self,
        method: Method,
        target: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream = TcpStream::connect(&self.authority).await;
        let stream = stream.map_err(|error| self.broken(error))?;
        let content = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut head = Request::builder().method(method).uri(target);
        head = head.header(HOST, &self.authority).header(ACCEPT, "*/*");
        if !body.is_empty() {
            head = head.header(CONTENT_TYPE, content);
        }
        if let Some(token) = &self.token {
            head = head.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = head
            .body(Full::new(body))
            .map_err(|error| self.broken(error))?;
        let Some(tls) = &self.tls else {
            return self.exchange(stream, request).await;
        };
        let name = ServerName::try_from(self.host.clone()).map_err(|error| self.broken(error))?;
        let connector = TlsConnector::from(Arc::clone(tls));
        let stream = connector.connect(name, stream).await;
        let stream = stream.map_err(|error| self.broken(error))?;
        self.exchange(stream, request).await
    }

    async fn exchange<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (mut sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.broken(error))?;
        // The connection ends with the body of its response.
        tokio::spawn(connection);
        sender
            .send_request(request)
            .await
            .map_err(|error| self.broken(error))
    }

    async fn body(
        &self,
        response: Response<Incoming>,
        largest: usize,
    ) -> Result<Bytes, ClientError> {
        let body = Limited::new(response.into_body(), largest).collect();
        let body = timeout(self.within, body).await.map_err(|_| self.late())?;
        Ok(body.map_err(|error| self.broken(error))?.to_bytes())
    }
}
