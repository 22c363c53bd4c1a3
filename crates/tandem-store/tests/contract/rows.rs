//! Sample subscribers and bindings.

use tandem_store::{AddressBindings, BindingRow, StoredCredentials, Subscriber};

/// A subscriber of example.org; `password` is a number that stands for one.
pub fn subscriber(username: &str, password: u8) -> Subscriber {
    subscriber_of(username, "example.org", password)
}

pub fn subscriber_of(username: &str, domain: &str, password: u8) -> Subscriber {
    Subscriber {
        username: username.to_owned(),
        domain: domain.to_owned(),
        credentials: credentials(password),
    }
}

pub fn credentials(password: u8) -> StoredCredentials {
    StoredCredentials {
        ha1_md5: [password; 16],
        ha1_sha256: [password; 32],
    }
}

/// The bindings of an address; contacts are given as numbers.
pub fn bound(address: &str, contacts: &[u32]) -> AddressBindings<'static> {
    AddressBindings {
        address: address.as_bytes().to_vec().into(),
        bindings: contacts.iter().map(|&number| binding(number)).collect(),
    }
}

/// A binding that expires at 1,000,000 + `number`.
pub fn binding(number: u32) -> BindingRow<'static> {
    BindingRow {
        contact: format!("sip:phone{number}@192.0.2.1:5060")
            .into_bytes()
            .into(),
        q: 1000 - (number % 1000) as u16,
        expires_at: 1_000_000 + number,
        call_id: format!("call-{number}@192.0.2.1").into_bytes().into(),
        cseq: number,
        path: b"<sip:edge.example.org;lr>".into(),
        instance: b"<urn:uuid:00000000-0000-1000-8000-000000000001>".into(),
        user_agent: b"Phone/1.0".into(),
        source: "[2001:db8::1]:5060".parse().expect("an address"),
        listener: "udp:[::]:5060".into(),
    }
}
