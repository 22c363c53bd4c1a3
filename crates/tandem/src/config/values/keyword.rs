//! Value types with a fixed set of words. Most are the types of the crates that the settings go to; only their words are declared here.
use super::{Listed, Setting, Wrong, quoted, text};
use crate::config::mistake::nearest;
use sip_elements::{ChallengedMethods, DiversionHeaders, Foreign, Redirects, Strangers};
use sip_message::Method;
use sip_message::digest::Algorithm;
use sip_routing::gateway::{Algorithm as Balancing, AllInactive, CallerSource};
use sip_routing::numbering::{NumberFormat, PlainNumbers};
use sip_routing::rule::Authentication;
use sip_runtime::tls::TlsVersion;
use sip_runtime::{Aliases, EventLoopKind};
use sip_transport::Protocol;
use toml::de::DeValue;

/// A value type with a word in the file for each value.
pub trait Keyword: Copy + PartialEq + 'static {
    /// All values, in the order of the reference.
    const ALL: &'static [Self];

    /// The word in the file.
    fn word(self) -> &'static str;
}

impl<T: Keyword> Setting for T {
    fn expected() -> String {
        one_of(Self::ALL.iter().map(|value| value.word()))
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let given = text(value)?;
        let found = Self::ALL.iter().find(|value| value.word() == given);
        found
            .copied()
            .ok_or_else(|| meant(given, Self::ALL.iter().map(|value| value.word())))
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(self.word()))
    }
}

/// Declares the words of a type.
macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $crate::config::Keyword for $type {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

pub(in crate::config) use words;

words!(Protocol {
    Udp = "udp",
    Tcp = "tcp",
    Tls = "tls",
    Ws = "ws",
    Wss = "wss",
});

impl Listed for Protocol {
    fn plural() -> String {
        format!(
            "transports ({})",
            Self::expected().replacen("one of ", "", 1)
        )
    }
}

words!(Balancing {
    Rendezvous = "rendezvous",
    RoundRobin = "round_robin",
    Random = "random",
    LeastCalls = "least_calls",
});
words!(AllInactive {
    Try = "try",
    Refuse = "refuse",
});
words!(NumberFormat {
    Unchanged = "unchanged",
    E164 = "e164",
    Digits = "digits",
    International = "international",
    National = "national",
});
words!(PlainNumbers {
    Local = "local",
    National = "national",
    International = "international",
});
words!(CallerSource {
    Own = "own",
    Trunk = "trunk",
});
words!(Authentication {
    Digest = "digest",
    Trust = "trust",
    Never = "never",
});
words!(Aliases {
    None = "none",
    Certified = "certified",
    All = "all",
});
words!(EventLoopKind {
    Auto = "auto",
    Epoll = "epoll",
    Poll = "poll",
    IoUring = "io_uring",
});
words!(TlsVersion {
    V1_2 = "1.2",
    V1_3 = "1.3",
});
words!(Foreign {
    Refuse = "refuse",
    Subscribers = "subscribers",
    Relay = "relay",
});
words!(Strangers {
    Accept = "accept",
    Refuse = "refuse",
});
words!(DiversionHeaders {
    None = "none",
    Diversion = "diversion",
    HistoryInfo = "history_info",
    Both = "both",
});
words!(Redirects {
    Pass = "pass",
    Recurse = "recurse",
});
words!(Algorithm {
    Md5 = "MD5",
    Sha256 = "SHA-256",
});

impl Listed for Algorithm {
    fn plural() -> String {
        Self::expected()
            .replacen("one of ", "", 1)
            .replace(" or ", " and ")
    }
}

/// When a registration is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As soon as it takes effect.
    Interval,
    /// After it is stored in the database.
    Commit,
}

words!(Durability {
    Interval = "interval",
    Commit = "commit",
});

/// Which failed calls are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedFailures {
    /// None: a call was answered, or leaves no record.
    None,
    /// All.
    All,
}

words!(RecordedFailures {
    None = "none",
    All = "all",
});

/// The minimum severity of log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Failures that stop the server or lose data.
    Error,
    /// Problems that need an operator's attention.
    Warn,
    /// Lifecycle events: start, stop, reload.
    Info,
    /// Decisions about individual requests.
    Debug,
    /// Everything.
    Trace,
}

words!(LogLevel {
    Error = "error",
    Warn = "warn",
    Info = "info",
    Debug = "debug",
    Trace = "trace",
});

/// Which calls get lines in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallLines {
    /// None.
    None,
    /// Those that have ended.
    Ended,
    /// All: when they start, are answered and end.
    All,
}

words!(CallLines {
    None = "none",
    Ended = "ended",
    All = "all",
});

/// Format of log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One human-readable line per record.
    Text,
    /// One JSON object per line.
    Json,
}

words!(LogFormat {
    Text = "text",
    Json = "json",
});

/// Declares a method of which only some may be listed in a key.
macro_rules! methods {
    ($(#[doc = $doc:literal])+ $type:ident { $($method:ident),+ $(,)? }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $type(pub Method<'static>);

        impl Keyword for $type {
            const ALL: &'static [Self] = &[$(Self(Method::$method)),+];

            fn word(self) -> &'static str {
                Method::LABELS.get(self.0.label_index()).copied().unwrap_or_default()
            }
        }

        impl Listed for $type {
            fn plural() -> String {
                format!("methods ({})", Self::expected().replacen("one of ", "", 1))
            }
        }
    };
}

methods! {
    /// A method that other domains can be allowed to send to subscribers outside a dialog.
    StrangerMethod { Invite, Message, Options, Subscribe, Notify, Publish, Refer, Info }
}

methods! {
    /// A method that can be challenged. ACK and CANCEL cannot be repeated with credentials (RFC 3261 section 22.1).
    Challengeable {
        Register, Invite, Bye, Options, Message, Subscribe, Notify, Publish, Refer, Info, Prack, Update,
    }
}

impl Setting for ChallengedMethods {
    fn expected() -> String {
        format!("\"all\" or {}", <Vec<Challengeable>>::expected())
    }

    fn expected_element() -> String {
        Challengeable::expected()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        if value.as_str() == Some("all") {
            return Ok(Self::All);
        }
        let listed = Vec::<Challengeable>::read(value)?;
        Ok(Self::Listed(listed.iter().map(|method| method.0).collect()))
    }

    fn to_toml(&self) -> Option<String> {
        match self {
            Self::All => Some(quoted("all")),
            Self::Listed(methods) => {
                let methods: Vec<_> = methods.iter().copied().map(Challengeable).collect();
                methods.to_toml()
            }
        }
    }
}

/// The words as a phrase.
pub fn one_of<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut words: Vec<String> = words.map(quoted).collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("one of {} or {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// A hint if the given word is nearly one of these.
pub fn meant<'w>(given: &str, words: impl Iterator<Item = &'w str>) -> Wrong {
    nearest(given, words).map_or_else(Wrong::default, |near| {
        Wrong::hint(format!("did you mean \"{near}\"?"))
    })
}
