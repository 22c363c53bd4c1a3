//! The messages in a sipp trace.

/// The messages that one sipp sent and received, in order.
#[derive(Clone, Debug, Default)]
pub struct Messages(Vec<(Direction, String)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Sent,
    Received,
}

impl Messages {
    /// Reads sipp's own trace. An entry is a line of dashes with the time, a line with the event, an empty line, and the
    /// message.
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

    /// The received messages whose first line begins with this text.
    pub fn received(&self, beginning: &str) -> Vec<&str> {
        self.those(Direction::Received, beginning)
    }

    /// The sent messages whose first line begins with this text.
    pub fn sent(&self, beginning: &str) -> Vec<&str> {
        self.those(Direction::Sent, beginning)
    }

    /// The last message sent or received.
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
