//! How numbers and identities are written for gateways.
use super::catalogue::{any, between, optional};
use super::declare::{choice, section};
use super::values::routing::{CountryCode, DialledDigits};
use sip_routing::gateway::{CalledNumber, CallerIdentity, CallerSource, IdentityHeader, Rewriting};
use sip_routing::numbering::{NumberFormat, NumberingPlan, PlainNumbers};
use std::sync::Arc;

section! {
    /// How telephone numbers are written in your network. Gateways whose `called_format` or `caller_format` is not `"unchanged"` need it
    /// ([routing](routing.md#numbers-and-identities)).
    Numbering {
        /// Your country code.
        reload country_code: Option<CountryCode> = None, optional(Some(CountryCode("49".to_owned())));

        /// What a number of another country begins with.
        reload international_prefix: DialledDigits = DialledDigits("00".to_owned()), any();

        /// What a number of your country begins with. Empty if there is nothing.
        reload national_prefix: DialledDigits = DialledDigits("0".to_owned()), any();

        /// What a number is that begins with none of them. `"local"`: an extension, which has no international form. `"national"`: a number
        /// of your country, as in North America. `"international"`: a number that begins with its country code. Numbers of fewer than
        /// seven digits, such as 112, are never converted.
        reload plain_numbers: PlainNumbers = PlainNumbers::default(), any();
    }
}

section! {
    /// How numbers and identities are written for a gateway.
    GatewayNumbers {
        /// The gateway is in your trust domain (RFC 3325): it sees the identity of callers that withhold it, and must withhold it from
        /// others. The identities that it sends in responses and inside dialogs are kept. Most carriers are trusted.
        reload trusted: bool = false, any();

        /// How the called number is written. `"e164"`: +4930123. `"digits"`: 4930123. `"international"`: 004930123. `"national"`: 030123,
        /// and 0044201234 for other countries. What has no international form stays as it is.
        reload called_format: NumberFormat = NumberFormat::default(), any();

        /// Number of characters to remove at the beginning of the called number, after `called_format`.
        reload strip: u8 = 0, between(0, 32);

        /// Text to put in front of the called number, after `strip`: up to 32 letters, digits, `+` and `*`.
        reload prefix: Option<String> = None, optional(Some("9911".to_owned()));

        /// Who calls.
        inline identity: GatewayIdentity;
    }
}

choice! {
    /// Which header field says to a gateway who calls.
    GatewayIdentity {
        /// The header field that says who calls. `"asserted"` is `P-Asserted-Identity`, `"preferred"` `P-Preferred-Identity`, and
        /// `"remote_party_id"` `Remote-Party-ID`. It replaces all that the request says about the caller. `"none"` sends none.
        /// `"unchanged"` keeps those of trusted peers.
        reload identity = {
            /// Those of trusted peers pass.
            Unchanged = "unchanged",
            /// None.
            None = "none",
            /// `P-Asserted-Identity`.
            Asserted(CallerNumber) = "asserted",
            /// `P-Preferred-Identity`.
            Preferred(CallerNumber) = "preferred",
            /// `Remote-Party-ID`.
            RemotePartyId(CallerNumber) = "remote_party_id",
        }
    }
}

section! {
    /// What the header field says.
    CallerNumber {
        /// Whose number is sent: `"own"`, that of the caller, or `"trunk"`, always `caller_number`.
        reload caller: CallerSource = CallerSource::default(), any();

        /// The number of the trunk in the international form. It is also sent for callers without a number of their own.
        reload caller_number: Option<String> = None, optional(Some("+4930123400".to_owned()));

        /// How the number of the caller is written. See `called_format`.
        reload caller_format: NumberFormat = NumberFormat::default(), any();

        /// Host in the URI of the caller. If omitted, the domain of the caller.
        reload caller_domain: Option<String> = None, optional(Some("trunk.example.net".to_owned()));
    }
}

impl Numbering {
    pub(super) fn plan(&self) -> Arc<NumberingPlan> {
        let country_code = self.country_code.as_ref();
        Arc::new(NumberingPlan {
            country_code: country_code.map_or("", |code| &code.0).into(),
            international_prefix: self.international_prefix.0.as_str().into(),
            national_prefix: self.national_prefix.0.as_str().into(),
            plain: self.plain_numbers,
        })
    }
}

impl GatewayNumbers {
    pub(super) fn rewriting(&self, plan: &Arc<NumberingPlan>) -> Rewriting {
        Rewriting {
            plan: Arc::clone(plan),
            called: CalledNumber {
                format: self.called_format,
                strip: self.strip,
                prefix: text(self.prefix.as_ref()).unwrap_or_default(),
            },
            caller: self.identity.caller(),
        }
    }
}

impl GatewayIdentity {
    fn caller(&self) -> CallerIdentity {
        let (header, number) = match self {
            Self::Unchanged => return CallerIdentity::default(),
            Self::None => {
                return CallerIdentity {
                    header: IdentityHeader::None,
                    ..CallerIdentity::default()
                };
            }
            Self::Asserted(number) => (IdentityHeader::Asserted, number),
            Self::Preferred(number) => (IdentityHeader::Preferred, number),
            Self::RemotePartyId(number) => (IdentityHeader::RemotePartyId, number),
        };
        CallerIdentity {
            header,
            format: number.caller_format,
            number: text(number.caller_number.as_ref()),
            source: number.caller,
            domain: text(number.caller_domain.as_ref()),
        }
    }
}

fn text(text: Option<&String>) -> Option<Box<str>> {
    text.map(|text| text.as_str().into())
}
