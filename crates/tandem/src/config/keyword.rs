//! Value types with a fixed set of words.
use super::mistake::nearest;
use super::value::{Listed, Setting, Wrong, quoted, text};
use toml::de::DeValue;

/// Declares an enumeration with a word in the file for each variant.
macro_rules! keywords {
    ($(#[doc = $doc:literal])+ $type:ident { $( $(#[doc = $word_doc:literal])+ $variant:ident = $word:literal ),+ $(,)? }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $( $(#[doc = $word_doc])+ $variant, )+ }

        impl $type {
            const WORDS: &'static [(&'static str, Self)] = &[ $( ($word, Self::$variant) ),+ ];

            /// The word in the file.
            pub const fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl Setting for $type {
            fn expected() -> String {
                one_of(Self::WORDS.iter().map(|(word, _)| *word))
            }

            fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
                let given = text(value)?;
                let found = Self::WORDS.iter().find(|(word, _)| *word == given);
                found.map(|(_, variant)| *variant).ok_or_else(|| meant(given, Self::WORDS.iter().map(|(word, _)| *word)))
            }

            fn to_toml(&self) -> Option<String> {
                Some(quoted(self.word()))
            }
        }
    };
}

keywords! {
    /// Transport of a listener.
    Transport {
        /// UDP datagrams.
        Udp = "udp",
        /// Unencrypted streams.
        Tcp = "tcp",
        /// Streams over TLS.
        Tls = "tls",
        /// Unencrypted WebSocket.
        Ws = "ws",
        /// WebSocket over TLS.
        Wss = "wss",
    }
}

keywords! {
    /// When a registration is answered.
    Durability {
        /// As soon as it takes effect.
        Interval = "interval",
        /// After it is stored in the database.
        Commit = "commit",
    }
}

keywords! {
    /// Which peers' `alias` is accepted.
    Aliases {
        /// No peer's.
        Nobody = "nobody",
        /// Peers with a certificate that the server trusts.
        Certified = "certified",
        /// Every peer's.
        Everybody = "everybody",
    }
}

keywords! {
    /// How a worker waits for its sockets.
    EventLoop {
        /// The best method that the kernel supports.
        Auto = "auto",
        /// epoll(7).
        Epoll = "epoll",
        /// poll(2).
        Poll = "poll",
        /// The kernel's submission and completion rings.
        IoUring = "io_uring",
    }
}

keywords! {
    /// The minimum TLS version.
    TlsVersion {
        /// RFC 5246.
        V12 = "1.2",
        /// RFC 8446.
        V13 = "1.3",
    }
}

keywords! {
    /// Whether the server requests a certificate from TLS clients.
    ClientCertificates {
        /// No certificate is requested.
        None = "none",
        /// Clients may present one.
        Optional = "optional",
        /// Clients must present one.
        Required = "required",
    }
}

keywords! {
    /// What happens to requests for other domains.
    Foreign {
        /// Rejected with 403.
        Refuse = "refuse",
        /// Forwarded for subscribers and trusted peers.
        Subscribers = "subscribers",
        /// Forwarded for all senders.
        Relay = "relay",
    }
}

keywords! {
    /// What happens to requests from other domains to subscribers.
    Strangers {
        /// Forwarded.
        Accept = "accept",
        /// Rejected with 403.
        Refuse = "refuse",
    }
}

keywords! {
    /// A method that other domains can be allowed to send to subscribers outside a dialog.
    StrangerMethod {
        /// RFC 3261.
        Invite = "INVITE",
        /// RFC 3428.
        Message = "MESSAGE",
        /// RFC 3261.
        Options = "OPTIONS",
        /// RFC 6665.
        Subscribe = "SUBSCRIBE",
        /// RFC 6665.
        Notify = "NOTIFY",
        /// RFC 3903.
        Publish = "PUBLISH",
        /// RFC 3515.
        Refer = "REFER",
        /// RFC 6086.
        Info = "INFO",
    }
}

impl Listed for StrangerMethod {
    fn plural() -> String {
        format!("methods ({})", Self::expected().replacen("one of ", "", 1))
    }
}

keywords! {
    /// A digest algorithm.
    Digest {
        /// MD5, which every phone supports.
        Md5 = "MD5",
        /// SHA-256 (RFC 8760).
        Sha256 = "SHA-256",
    }
}

impl Listed for Digest {
    fn plural() -> String {
        Self::expected()
            .replacen("one of ", "", 1)
            .replace(" or ", " and ")
    }
}

keywords! {
    /// The minimum severity of log records.
    LogLevel {
        /// Failures that stop the server or lose data.
        Error = "error",
        /// Problems that need an operator's attention.
        Warn = "warn",
        /// Lifecycle events: start, stop, reload.
        Info = "info",
        /// Decisions about individual requests.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

keywords! {
    /// Format of log records.
    LogFormat {
        /// One human-readable line per record.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

keywords! {
    /// A method that can be challenged. ACK and CANCEL cannot be repeated with credentials (RFC 3261 section 22.1).
    Challenged {
        /// RFC 3261.
        Register = "REGISTER",
        /// RFC 3261.
        Invite = "INVITE",
        /// RFC 3261.
        Bye = "BYE",
        /// RFC 3261.
        Options = "OPTIONS",
        /// RFC 3428.
        Message = "MESSAGE",
        /// RFC 6665.
        Subscribe = "SUBSCRIBE",
        /// RFC 6665.
        Notify = "NOTIFY",
        /// RFC 3903.
        Publish = "PUBLISH",
        /// RFC 3515.
        Refer = "REFER",
        /// RFC 6086.
        Info = "INFO",
        /// RFC 3262.
        Prack = "PRACK",
        /// RFC 3311.
        Update = "UPDATE",
    }
}

impl Listed for Challenged {
    fn plural() -> String {
        format!("methods ({})", Self::expected().replacen("one of ", "", 1))
    }
}

/// Which methods are challenged: `"all"`, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChallengedMethods {
    /// Every method.
    All,
    /// The listed methods.
    Listed(Vec<Challenged>),
}

impl ChallengedMethods {
    /// Whether digest authentication is disabled.
    pub fn is_empty(&self) -> bool {
        self.listed().is_some_and(<[Challenged]>::is_empty)
    }

    /// The list; `None` for all methods.
    pub fn listed(&self) -> Option<&[Challenged]> {
        match self {
            Self::All => None,
            Self::Listed(methods) => Some(methods),
        }
    }
}

impl Setting for ChallengedMethods {
    fn expected() -> String {
        format!("\"all\" or {}", <Vec<Challenged>>::expected())
    }

    fn expected_element() -> String {
        Challenged::expected()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        match value.as_str() {
            Some("all") => Ok(Self::All),
            _ => Vec::read(value).map(Self::Listed),
        }
    }

    fn to_toml(&self) -> Option<String> {
        match self {
            Self::All => Some(quoted("all")),
            Self::Listed(methods) => methods.to_toml(),
        }
    }
}

fn one_of<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut words: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("one of {} or {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}

fn meant<'w>(given: &str, words: impl Iterator<Item = &'w str>) -> Wrong {
    nearest(given, words).map_or_else(Wrong::default, |near| {
        Wrong::hint(format!("did you mean \"{near}\"?"))
    })
}
