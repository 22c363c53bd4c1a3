//! The messages in a trace of sipp.

/// The messages that one sipp sent and received, in order.
#[derive(Clone, Debug, Default)]
pub struct Messages(Vec<(Direction, String)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Sent,
    Received,
}

impl Messages {
    /// From sipp's own trace: a line of dashes and the time, a line that says what happened, an empty line, the message.
    pub(crate) fn read(trace: &str) -> Self {
        let entries = trace.split("----------------------------------------------- ");
        let messages = entries.filter_map(|entry| {
            let (head, message) = entry.split_once("\n\n")?;
            let direction = if head.contains("message sent") {
                Direction::Sent
            } else if head.contains("message received") {
                Direction::Received
            } else {
                return None;
            };
            Some((direction, message.to_owned()))
        });
        Self(messages.collect())
    }

    /// Those received whose first line begins like this.
    pub fn received(&self, beginning: &str) -> Vec<&str> {
        self.those(Direction::Received, beginning)
    }

    /// Those sent whose first line begins like this.
    pub fn sent(&self, beginning: &str) -> Vec<&str> {
        self.those(Direction::Sent, beginning)
    }

    /// The latest of all.
    pub(crate) fn last(&self) -> Option<&str> {
        self.0.last().map(|(_, message)| message.as_str())
    }

    fn those(&self, direction: Direction, beginning: &str) -> Vec<&str> {
        let found = self
            .0
            .iter()
            .filter(|(of, message)| *of == direction && message.starts_with(beginning));
        found.map(|(_, message)| message.as_str()).collect()
    }
}

/// The values of a header field of a message, in order.
pub fn header<'m>(message: &'m str, name: &str) -> Vec<&'m str> {
    let lines = message.lines().take_while(|line| !line.is_empty());
    let fields = lines.filter_map(|line| line.split_once(':'));
    fields
        .filter(|(field, _)| field.trim().eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
        .collect()
}
