//! Single SIP messages, read from tshark's PDML, which has one line for each field.

/// A SIP message, with the packet that completed it and the endpoints of that packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they are")]
pub struct Dissected {
    pub frame: u64,
    /// In nanoseconds since 1970.
    pub time: i64,
    pub transport: String,
    pub source: u16,
    pub destination: u16,
    /// The status code, or 0 in a request.
    pub status: u16,
    /// The method in `CSeq`.
    pub method: String,
    pub call_id: String,
    pub cseq: u32,
    /// The branch of every Via, topmost first. Empty if a Via has none.
    pub branches: Vec<String>,
    pub to_tag: String,
    pub has_credentials: bool,
}

/// Converts seconds with nine digits after the point into nanoseconds.
pub(crate) fn nanoseconds(text: &str) -> i64 {
    let (seconds, fraction) = text.split_once('.').expect("a fraction");
    assert_eq!(fraction.len(), 9, "{text}");
    let number = |text: &str| -> i64 { text.parse().expect("a number") };
    number(seconds) * 1_000_000_000 + number(fraction)
}

/// Reads PDML.
pub(crate) fn read(text: &str) -> Vec<Dissected> {
    let mut messages: Vec<Dissected> = Vec::new();
    // The fields of the packet that precede its first message.
    let mut packet = Dissected::default();
    let mut in_message = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("<packet>") {
            packet = Dissected::default();
        }
        if line.starts_with("<proto ") {
            in_message = line.starts_with("<proto name=\"sip\"");
            if in_message {
                messages.push(packet.clone());
            }
        }
        let Some(name) = attribute(line, "name") else {
            continue;
        };
        let value = attribute(line, "show").unwrap_or_default();
        let into = match messages.last_mut() {
            Some(message) if in_message => message,
            _ => &mut packet,
        };
        let number = || value.parse().expect("a number");
        match name {
            "frame.number" => into.frame = value.parse().expect("a number"),
            "frame.time_epoch" => into.time = nanoseconds(value),
            "udp.srcport" | "tcp.srcport" => {
                let transport = name.split('.').next().unwrap_or_default();
                transport.clone_into(&mut into.transport);
                into.source = number();
            }
            "udp.dstport" | "tcp.dstport" => into.destination = number(),
            "sip.Status-Code" => into.status = number(),
            "sip.CSeq.seq" => into.cseq = value.parse().expect("a number"),
            "sip.CSeq.method" => value.clone_into(&mut into.method),
            "sip.Call-ID" => value.clone_into(&mut into.call_id),
            "sip.Via.branch" => into.branches.push(value.to_owned()),
            "sip.to.tag" => value.clone_into(&mut into.to_tag),
            "sip.Proxy-Authorization" | "sip.Authorization" => into.has_credentials = true,
            _ => {}
        }
    }
    messages
}

/// The value of an attribute. The attributes used here contain nothing that XML escapes.
fn attribute<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let begin = format!(" {name}=\"");
    let (_, rest) = line.split_once(&begin)?;
    rest.split('"').next()
}
