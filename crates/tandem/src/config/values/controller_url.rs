//! The value type for the URL of a fleet's controller.
use super::{Setting, Wrong, quoted, text};
use hyper::Uri;
use toml::de::DeValue;

/// The URL of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerUrl(pub String);

impl ControllerUrl {
    /// The example in the reference.
    pub fn example() -> Option<Self> {
        Some(Self("http://tandem-control:8061".to_owned()))
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        let uri: Option<Uri> = self.0.parse().ok();
        let authority = uri.as_ref().and_then(Uri::authority);
        authority.map(ToString::to_string).unwrap_or_default()
    }
}

impl Setting for ControllerUrl {
    fn expected() -> String {
        "a URL such as \"http://tandem-control:8061\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let written = text(value)?;
        let uri: Uri = written.parse().map_err(|_| Wrong::default())?;
        if uri.scheme_str() != Some("http") {
            return Err(Wrong::hint(
                "the controller's interface is plain HTTP: write http://",
            ));
        }
        if uri.port_u16().is_none() || !matches!(uri.path(), "" | "/") {
            return Err(Wrong::hint("write the port, and no path"));
        }
        Ok(Self(written.to_owned()))
    }

    fn to_toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}
