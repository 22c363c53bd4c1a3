//! The keys of a gateway that challenges us, or that we register at.
use super::catalogue::{between, optional};
use super::declare::section;
use super::document::Document;
use super::environment::read_secret;
use super::mistake::nearest;
use super::sections::Gateway;
use super::values::duration::{hours, seconds};
use super::values::{Setting, Wrong, quoted, text};
use sip_message::digest::Credential;
use sip_routing::gateway::RegistrationDescription;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use toml::de::DeValue;

section! {
    /// Credentials and registration ([routing](routing.md#credentials)).
    GatewayAccount {
        /// User name that answers the digest challenges of the gateway. Requires `password`. Its challenges then never reach the caller. If it
        /// does not accept the credentials, the call goes to the next gateway of the group, or gets 502.
        reload username: Option<QuotedText> = None, optional(Some(QuotedText("trunk-4930".to_owned())));

        /// Password of `username`: a text, or the file that contains it, such as `{ file = "/etc/tandem/carrier.secret" }`, which is read with
        /// the configuration. Tandem does not show it.
        reload password: Option<Password> = None, optional(Some(Password::of("secret")));

        /// Realm of the challenges that get the credentials. If omitted, each challenge that comes back from the gateway gets them, also one
        /// of a server behind it.
        reload realm: Option<QuotedText> = None, optional(Some(QuotedText("trunk.example.net".to_owned())));

        /// Address of record to register at the gateway, such as `"sip:4930123@trunk.example.net"`. If omitted, there is no registration.
        /// Calls also go to the gateway while the registration fails.
        reload register: Option<AddressOfRecord> = None, optional(Some(AddressOfRecord("sip:4930123@trunk.example.net".to_owned())));

        /// User of the registered Contact. The gateway sends calls to this user at the address of the listener. If omitted, the user of
        /// `register`.
        reload register_contact: Option<ContactUser> = None, optional(Some(ContactUser("trunk-a".to_owned())));

        /// Lifetime of the registration to ask for. The registrar may grant another one, which counts.
        reload register_expires: Duration = hours(1), between(seconds(60), hours(24));
    }
}

impl GatewayAccount {
    /// What answers challenges.
    pub fn credential(&self) -> Option<Credential> {
        let (username, password) = (self.username.as_ref()?, self.password.as_ref()?);
        Some(Credential {
            realm: self.realm.as_ref().map(|realm| realm.0.as_str().into()),
            username: username.0.as_str().into(),
            password: password.text.as_str().into(),
        })
    }

    /// The registration that the gateway requires.
    pub fn registration(&self) -> Option<RegistrationDescription> {
        let address = &self.register.as_ref()?.0;
        let user = self.register_contact.as_ref().map(|user| user.0.as_str());
        RegistrationDescription::new(address, user, self.register_expires)
    }
}

/// Reports keys that need another one.
pub(super) fn check(declared: &Gateway, section: &str, document: &Document<'_>) {
    let account = &declared.account;
    let (has_name, has_password) = (account.username.is_some(), account.password.is_some());
    let has_register = account.register.is_some();
    for (key, is_given, needed, has_needed) in [
        ("username", has_name, "password", has_password),
        ("password", has_password, "username", has_name),
        ("realm", account.realm.is_some(), "username", has_name),
        (
            "register_contact",
            account.register_contact.is_some(),
            "register",
            has_register,
        ),
    ] {
        let path = format!("{section}.{key}");
        let is_reported = document.is_wrong(&format!("{section}.{needed}"));
        if is_given && !has_needed && !is_reported {
            document.report_at(&path, format!("`{path}`: requires `{needed}`"));
        }
    }
}

/// A text that can be a quoted parameter as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotedText(pub String);

impl Setting for QuotedText {
    fn expected() -> String {
        "1 to 128 characters without quotes, backslashes and control characters".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        let is_bad = |it: char| matches!(it, '"' | '\\') || it.is_control();
        if !(1..=128).contains(&text.len()) || text.contains(is_bad) {
            return Err(Wrong::default());
        }
        Ok(Self(text.to_owned()))
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

/// A password, or the file that it was read from.
#[derive(Clone, PartialEq, Eq)]
pub struct Password {
    text: String,
    file: Option<String>,
}

impl Password {
    /// A password that the configuration contains.
    fn of(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            file: None,
        }
    }

    /// The same to show: without the text.
    #[must_use]
    pub fn shown(&self) -> Self {
        Self {
            text: "…".to_owned(),
            file: self.file.clone(),
        }
    }

    fn read_from(file: &str) -> Result<Self, Wrong> {
        let text = read_secret(Path::new(file)).map_err(|problem| Wrong {
            is_secret: true,
            ..Wrong::hint(problem)
        })?;
        Self {
            text: text.trim_end_matches(['\r', '\n']).to_owned(),
            file: Some(file.to_owned()),
        }
        .checked()
    }

    fn checked(self) -> Result<Self, Wrong> {
        if self.text.is_empty() {
            return Err(Wrong {
                is_secret: true,
                ..Wrong::hint("it is empty")
            });
        }
        Ok(self)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(…)")
    }
}

impl Setting for Password {
    fn expected() -> String {
        "a password, or a table with the file that contains it, such as { file = \"/etc/tandem/carrier.secret\" }".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        const KEY: &str = "file";
        let secret = |wrong| Wrong {
            is_secret: true,
            ..wrong
        };
        if let DeValue::Table(table) = value {
            if let Some((key, _)) = table.iter().find(|(key, _)| &**key.get_ref() != KEY) {
                let near = nearest(key.get_ref(), [KEY]);
                let hint =
                    near.map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
                return Err(secret(Wrong::hint(format!(
                    "unknown key `{}`{hint}",
                    key.get_ref()
                ))));
            }
            let file = table.get(KEY).map(|file| text(file.get_ref()));
            let file = file.ok_or_else(|| secret(Wrong::hint("`file` is missing")))?;
            return Self::read_from(file.map_err(secret)?);
        }
        Self::of(text(value).map_err(secret)?).checked()
    }

    fn to_toml(&self) -> Option<String> {
        Some(match &self.file {
            Some(file) => format!("{{ file = {} }}", quoted(file)),
            None => quoted(&self.text),
        })
    }
}

/// The address of record of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressOfRecord(pub String);

impl Setting for AddressOfRecord {
    fn expected() -> String {
        "a SIP URI with a user and without parameters, such as \"sip:4930123@trunk.example.net\""
            .to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        let is_valid = RegistrationDescription::new(text, None, Duration::ZERO).is_some();
        let address = is_valid.then(|| Self(text.to_owned()));
        address.ok_or_else(|| {
            if text.contains(':') {
                Wrong::default()
            } else {
                Wrong::hint(format!("add the scheme: \"sip:{text}\""))
            }
        })
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

/// The user of a Contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContactUser(pub String);

impl Setting for ContactUser {
    fn expected() -> String {
        "the user part of a SIP URI, such as \"trunk-a\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let text = text(value)?;
        let described = RegistrationDescription::new("sip:a@b", Some(text), Duration::ZERO);
        let user = described.map(|_| Self(text.to_owned()));
        user.ok_or_else(Wrong::default)
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}
