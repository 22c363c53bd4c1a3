//! Any sequence of edits against a model: a list of values for each name.
use proptest::prelude::*;
use sip_message::{HeaderName, Message, Patch};

/// Names that are edited. All other names are never touched.
const EDITED: [HeaderName; 4] = [
    HeaderName::Via,
    HeaderName::Route,
    HeaderName::RecordRoute,
    HeaderName::Supported,
];

/// A received header field line: index into `EDITED` or none, and its text.
#[derive(Clone, Debug)]
struct Line {
    name: Option<usize>,
    values: Vec<String>,
    text: String,
}

#[derive(Clone, Debug)]
enum Edit {
    Prepend(usize, String),
    Append(usize, String),
    RemoveFirst(usize, usize),
    RemoveLast(usize),
    Remove(usize),
    Replace(usize, String),
    MaxForwards(u8),
    Uri(String),
    Body(Vec<u8>),
}

/// The expected lines of a name.
#[derive(Debug, Default)]
struct Model {
    prepended: Vec<String>,
    received: Vec<Received>,
    appended: Vec<String>,
    /// Added by `replace`, because there was no line to replace.
    added: Option<(usize, String)>,
}

#[derive(Debug)]
struct Received {
    values: Vec<String>,
    kept: std::ops::Range<usize>,
    replaced: Option<String>,
}

impl Model {
    fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Prepend(_, value) => self.prepended.insert(0, value.clone()),
            Edit::Append(_, value) => self.appended.push(value.clone()),
            Edit::RemoveFirst(_, count) => (0..*count).for_each(|_| self.remove_value(true)),
            Edit::RemoveLast(_) => self.remove_value(false),
            Edit::Remove(_) => {
                self.prepended.clear();
                self.appended.clear();
                self.added = None;
                for line in &mut self.received {
                    line.kept = 0..0;
                    line.replaced = None;
                }
            }
            Edit::Replace(_, value) => {
                self.added = None;
                match self.received.iter_mut().find(|line| !line.kept.is_empty()) {
                    Some(line) => {
                        line.kept = 0..line.values.len();
                        line.replaced = Some(value.clone());
                    }
                    None => self.added = Some((self.appended.len(), value.clone())),
                }
            }
            Edit::MaxForwards(_) | Edit::Uri(_) | Edit::Body(_) => {}
        }
    }

    fn remove_value(&mut self, first: bool) {
        let mut kept = self
            .received
            .iter_mut()
            .filter(|line| !line.kept.is_empty());
        let line = if first { kept.next() } else { kept.next_back() };
        if let Some(line) = line {
            line.replaced = None;
            if first {
                line.kept.start += 1;
            } else {
                line.kept.end -= 1;
            }
        }
    }

    fn values(&self) -> Vec<String> {
        let mut values = self.prepended.clone();
        for line in self.received.iter().filter(|line| !line.kept.is_empty()) {
            match &line.replaced {
                Some(value) => values.push(value.clone()),
                None => values.extend_from_slice(&line.values[line.kept.clone()]),
            }
        }
        let mut appended = self.appended.clone();
        if let Some((at, value)) = &self.added {
            appended.insert(*at, value.clone());
        }
        values.extend(appended);
        values
    }
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,6}",
        "<sip:[a-z]{1,3},[a-z];lr>",
        "\"[a-z,<]{1,4}\" <sip:[a-z]>;q=0\\.[1-9]"
    ]
}

fn line() -> impl Strategy<Value = Line> {
    let spelling = prop_oneof![Just(": "), Just(":"), Just(" :  "), Just(":\r\n ")];
    let comma = prop_oneof![Just(","), Just(", "), Just(" ,\r\n\t"), Just(", ,")];
    let end = prop_oneof![4 => Just("\r\n"), 1 => Just("  \r\n"), 1 => Just("\n")];
    let edited = (
        0..EDITED.len(),
        any::<bool>(),
        spelling,
        proptest::collection::vec(value(), 1..4),
        comma,
        end,
    )
        .prop_map(|(name, short, colon, values, comma, end)| {
            let long = EDITED[name].as_str();
            let compact = if short {
                ["v", "ROUTE", "record-route", "k"][name]
            } else {
                long
            };
            Line {
                name: Some(name),
                text: format!("{compact}{colon}{}{end}", values.join(comma)),
                values,
            }
        });
    let other = prop_oneof![
        "X-[A-Z]{1,5}: [ -~]{0,20}\r\n",
        "Subject:[ -~]{0,9}\r\n [!-~]{1,9}\n",
        Just("Max-Forwards: 070\r\n".to_owned()),
    ]
    .prop_map(|text| Line {
        name: None,
        values: Vec::new(),
        text,
    });
    prop_oneof![3 => edited, 2 => other]
}

fn edit() -> impl Strategy<Value = Edit> {
    let name = 0..EDITED.len();
    prop_oneof![
        (name.clone(), value()).prop_map(|(name, value)| Edit::Prepend(name, value)),
        (name.clone(), value()).prop_map(|(name, value)| Edit::Append(name, value)),
        (name.clone(), 0_usize..4).prop_map(|(name, count)| Edit::RemoveFirst(name, count)),
        name.clone().prop_map(Edit::RemoveLast),
        name.clone().prop_map(Edit::Remove),
        (name, value()).prop_map(|(name, value)| Edit::Replace(name, value)),
        any::<u8>().prop_map(Edit::MaxForwards),
        "sip:[a-z]{1,5}@[a-z]{1,5}".prop_map(Edit::Uri),
        proptest::collection::vec(any::<u8>(), 0..30).prop_map(Edit::Body),
    ]
}

fn apply(patch: &mut Patch<'_, '_>, edit: &Edit) {
    match edit {
        Edit::Prepend(name, value) => {
            patch.prepend(EDITED[*name], value.as_bytes());
        }
        Edit::Append(name, value) => {
            patch.append(EDITED[*name], value.as_bytes());
        }
        Edit::RemoveFirst(name, count) => {
            patch.remove_first_values(EDITED[*name], *count);
        }
        Edit::RemoveLast(name) => {
            patch.remove_last_value(EDITED[*name]);
        }
        Edit::Remove(name) => {
            patch.remove(EDITED[*name]);
        }
        Edit::Replace(name, value) => {
            patch.replace(EDITED[*name], value.as_bytes());
        }
        Edit::MaxForwards(value) => {
            patch.max_forwards(*value);
        }
        Edit::Uri(uri) => {
            patch.request_uri(uri.as_bytes());
        }
        Edit::Body(body) => {
            patch.body(body);
        }
    }
}

fn name_of(edit: &Edit) -> Option<usize> {
    match edit {
        Edit::Prepend(name, _)
        | Edit::Append(name, _)
        | Edit::RemoveFirst(name, _)
        | Edit::Replace(name, _)
        | Edit::RemoveLast(name)
        | Edit::Remove(name) => Some(*name),
        Edit::MaxForwards(_) | Edit::Uri(_) | Edit::Body(_) => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn edits_do_what_they_say_and_nothing_else(
        received in proptest::collection::vec(line(), 0..9),
        edits in proptest::collection::vec(edit(), 0..9),
        body in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let header: String = received.iter().map(|line| line.text.as_str()).collect();
        let bytes = [b"INVITE sip:old SIP/2.0\r\n", header.as_bytes(), b"\r\n", &body].concat();
        let message = Message::parse(&bytes).unwrap();
        let mut patch = Patch::new(&message);
        let mut models: [Model; EDITED.len()] = Default::default();
        for line in &received {
            if let Some(name) = line.name {
                let kept = 0..line.values.len();
                models[name].received.push(Received { values: line.values.clone(), kept, replaced: None });
            }
        }
        for edit in &edits {
            apply(&mut patch, edit);
            if let Some(name) = name_of(edit) {
                models[name].apply(edit);
            }
        }
        let mut out = b"kept".to_vec();
        patch.write(&mut out);
        prop_assert_eq!(&out[..4], b"kept");
        let out = &out[4..];
        if edits.is_empty() {
            prop_assert_eq!(out, &bytes[..]);
        }

        // The result parses and has the values of the model.
        let result = Message::parse(out).unwrap();
        for (name, model) in EDITED.into_iter().zip(&models) {
            let values: Vec<String> = result.values(name).map(|value| String::from_utf8(value.to_vec()).unwrap()).collect();
            prop_assert_eq!(values, model.values(), "{:?}", name);
        }
        let last = |find: fn(&Edit) -> Option<&[u8]>| edits.iter().rev().find_map(find);
        let uri = last(|edit| if let Edit::Uri(uri) = edit { Some(uri.as_bytes()) } else { None });
        prop_assert_eq!(result.request_uri(), uri.unwrap_or(b"sip:old"));
        let new_body = last(|edit| if let Edit::Body(body) = edit { Some(body.as_slice()) } else { None });
        prop_assert_eq!(result.body(), new_body.unwrap_or(&body));
        let max_forwards = edits.iter().rev().find_map(|edit| if let Edit::MaxForwards(value) = edit { Some(*value) } else { None });
        if let Some(value) = max_forwards {
            prop_assert_eq!(result.max_forwards(), Some(Some(value)));
        }

        // Lines without edits appear byte for byte, in order.
        let touched: Vec<Option<usize>> = edits.iter().map(name_of).collect();
        let mut rest = out;
        for line in &received {
            let edited = match line.name {
                Some(name) => touched.contains(&Some(name)),
                None => max_forwards.is_some() && line.text.starts_with("Max-Forwards"),
            };
            if !edited {
                let at = rest.windows(line.text.len()).position(|window| window == line.text.as_bytes());
                prop_assert!(at.is_some(), "{:?} is gone", line.text);
                rest = &rest[at.unwrap() + line.text.len()..];
            }
        }
    }
}
