//! Values that are one word out of a few.
use super::mistake::nearest;
use super::value::{Listed, Setting, Wrong, quoted, text};
use toml::de::DeValue;

/// Declares an enumeration whose variants are words in the file.
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
        /// Datagrams.
        Udp = "udp",
        /// Streams in the clear.
        Tcp = "tcp",
        /// Streams over TLS.
        Tls = "tls",
        /// WebSocket in the clear.
        Ws = "ws",
        /// WebSocket over TLS.
        Wss = "wss",
    }
}

keywords! {
    /// When a registration is answered.
    Durability {
        /// As soon as it is in force.
        Interval = "interval",
        /// When it is in the database.
        Commit = "commit",
    }
}

keywords! {
    /// Whose `alias` is believed.
    Aliases {
        /// Nobody's.
        Nobody = "nobody",
        /// That of peers with a certificate that we trust.
        Certified = "certified",
        /// Everybody's.
        Everybody = "everybody",
    }
}

keywords! {
    /// How a worker waits for its sockets.
    EventLoop {
        /// The best that the kernel has.
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
    /// The oldest TLS version that is spoken.
    TlsVersion {
        /// RFC 5246.
        V12 = "1.2",
        /// RFC 8446.
        V13 = "1.3",
    }
}

keywords! {
    /// Whether TLS clients are asked for a certificate.
    ClientCertificates {
        /// They are not asked.
        None = "none",
        /// They may show one.
        Optional = "optional",
        /// They must show one.
        Required = "required",
    }
}

keywords! {
    /// What becomes of requests for domains that are not ours.
    Foreign {
        /// 403.
        Refuse = "refuse",
        /// Those of subscribers and trusted peers are forwarded.
        Subscribers = "subscribers",
        /// They are forwarded.
        Relay = "relay",
    }
}

keywords! {
    /// What becomes of requests from other domains for our subscribers.
    Strangers {
        /// They are forwarded.
        Accept = "accept",
        /// 403.
        Refuse = "refuse",
    }
}

keywords! {
    /// A method that other domains can be let send to our subscribers outside a dialog.
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
        /// MD5, which every phone knows.
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
    /// The least severe log record that is written.
    LogLevel {
        /// Only what stops the server or loses data.
        Error = "error",
        /// What an operator should look at.
        Warn = "warn",
        /// What happens: start, stop, reload.
        Info = "info",
        /// Decisions about single requests.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

keywords! {
    /// How log records are written.
    LogFormat {
        /// A line for people.
        Text = "text",
        /// A JSON object on each line, for programs.
        Json = "json",
    }
}

keywords! {
    /// A method that can be challenged: not ACK and CANCEL, which cannot be repeated with credentials (RFC 3261 section 22.1).
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
    /// These.
    Listed(Vec<Challenged>),
}

impl ChallengedMethods {
    /// Whether digest is off.
    pub fn is_empty(&self) -> bool {
        self.listed().is_some_and(<[Challenged]>::is_empty)
    }

    /// The list, where there is one.
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
