//! How long a call waits for a gateway.

use std::time::Duration;

/// How long a call waits for a gateway before it tries the next member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRules {
    /// How long the gateway may send nothing but 100: 1 second to 1 hour. The gateway has received the call, but does nothing with it.
    pub response: Duration,
    /// How long the call may stay without a final response, however often it rings: 1 second to 1 hour. `None`: Timer C decides.
    pub answer: Option<Duration>,
}

impl Default for WaitRules {
    /// As long as Timer B, 32 s, for the first response that is more than 100.
    fn default() -> Self {
        Self {
            response: Duration::from_secs(32),
            answer: None,
        }
    }
}
