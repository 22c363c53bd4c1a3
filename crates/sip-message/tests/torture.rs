//! The torture messages of RFC 4475 and RFC 5118, octet for octet: what parsing and validation make of each.
//!
//! The table is ours; what the RFCs leave open is decided here. What a registrar or proxy does with a message that is valid
//! at this layer (420, 483, 501 …) is tested where those live.
use sip_message::HeaderName::{self, CSeq, CallId, Contact, ContentLength, From, To, Via};
use sip_message::{Message, Patch, ResponseWriter};

/// What parsing and validation make of a message.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// Sound at this layer.
    Valid,
    /// A request answered with that status because of that header field, or of the start line.
    Refused(u16, Option<HeaderName>),
    /// A response that is thrown away, or bytes that can't be answered.
    Dropped,
}
use Outcome::{Dropped, Refused, Valid};

macro_rules! table {
    ($folder:literal: $($file:literal => $outcome:expr,)*) => {
        &[$(($file, include_bytes!(concat!("torture/", $folder, "/", $file, ".dat")), $outcome)),*]
    };
}

type Row = (&'static str, &'static [u8], Outcome);

const RFC_4475: &[Row] = table! { "rfc4475":
    // 3.1.1: valid messages.
    "wsinv" => Valid,
    "intmeth" => Valid,
    "esc01" => Valid,
    "escnull" => Valid,
    "esc02" => Valid,
    "lwsdisp" => Valid,
    "longreq" => Valid,
    "dblreq" => Valid,
    "semiuri" => Valid,
    "transports" => Valid,
    "mpart01" => Valid,
    "unreason" => Valid,
    "noreason" => Valid,
    // 3.1.2: invalid messages.
    "badinv01" => Refused(400, Some(Via)),
    "clerr" => Refused(400, Some(ContentLength)),
    "ncl" => Refused(400, Some(ContentLength)),
    "scalar02" => Refused(400, Some(CSeq)),
    "scalarlg" => Dropped,
    "quotbal" => Refused(400, Some(To)),
    "ltgtruri" => Refused(400, None),
    "lwsruri" => Refused(400, None),
    "lwsstart" => Refused(400, None),
    "trws" => Refused(400, None),
    "escruri" => Refused(400, None),
    // The time zone matters to nobody here.
    "baddate" => Valid,
    "regbadct" => Refused(400, Some(Contact)),
    "badaspec" => Refused(400, Some(To)),
    "baddn" => Refused(400, Some(From)),
    "badvers" => Refused(505, None),
    "mismatch01" => Refused(400, Some(CSeq)),
    "mismatch02" => Refused(501, Some(CSeq)),
    "bigcode" => Dropped,
    // 3.2: the branch is the bare cookie; matched as RFC 2543 does.
    "badbranch" => Valid,
    // 3.3: what the transaction user decides, and missing or repeated header fields.
    "insuf" => Refused(400, Some(From)),
    "unkscm" => Refused(416, None),
    "novelsc" => Refused(416, None),
    "unksm2" => Valid,
    "bext01" => Valid,
    "invut" => Valid,
    "regaut01" => Valid,
    "multi01" => Refused(400, Some(From)),
    "mcl01" => Refused(400, Some(ContentLength)),
    "bcast" => Valid,
    "zeromf" => Valid,
    "cparam01" => Valid,
    "cparam02" => Valid,
    "regescrt" => Valid,
    "sdp01" => Valid,
    // 3.4: RFC 2543.
    "inv2543" => Valid,
};

const RFC_5118: &[Row] = table! { "rfc5118":
    "ipv6-good" => Valid,
    "ipv6-bad" => Refused(400, None),
    "port-ambiguous" => Valid,
    "port-unambiguous" => Valid,
    "via-received-param-with-delim" => Valid,
    "via-received-param-no-delim" => Valid,
    "ipv6-in-sdp" => Valid,
    "mult-ip-in-header" => Valid,
    "mult-ip-in-sdp" => Valid,
    "ipv4-mapped-ipv6" => Valid,
    "ipv6-bug-abnf-3-colons" => Refused(400, None),
    "ipv6-correct-abnf-2-colons" => Valid,
};

fn rows() -> impl Iterator<Item = &'static Row> {
    RFC_4475.iter().chain(RFC_5118)
}

fn outcome(bytes: &[u8]) -> Outcome {
    let Ok(message) = Message::parse(bytes) else {
        return Dropped;
    };
    match message.validate() {
        Ok(()) => Valid,
        Err(malformed) if message.is_request() => Refused(malformed.status, malformed.header),
        Err(_) => Dropped,
    }
}

#[test]
fn each_message_has_the_outcome_of_its_rfc() {
    assert_eq!((RFC_4475.len(), RFC_5118.len()), (49, 12));
    let wrong: Vec<_> = rows()
        .map(|(name, bytes, expected)| (name, outcome(bytes), expected))
        .filter(|(_, got, expected)| got != *expected)
        .collect();
    assert!(wrong.is_empty(), "(message, got, expected): {wrong:#?}");
}
