//! Where a page of dialogs ends, as text: the worker and its slot, such as `1-2048`.
use crate::control::Position;
use serde_json::json;
use tandem_http::rpc::{Failure, code};

pub(super) fn write(Position { worker, slot }: Position) -> String {
    format!("{worker}-{slot}")
}

pub(super) fn read(text: &str) -> Result<Position, Failure> {
    let position = text.split_once('-').and_then(|(worker, slot)| {
        let (worker, slot) = (worker.parse().ok()?, slot.parse().ok()?);
        Some(Position { worker, slot })
    });
    position.ok_or_else(|| {
        let problem = format!(
            "`after` = {}: must be `next` of an earlier page",
            json!(text)
        );
        Failure::new(code::INVALID_PARAMS, problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written() {
        let position = Position {
            worker: 3,
            slot: 4_096,
        };
        assert_eq!(write(position), "3-4096");
        assert_eq!(read("3-4096"), Ok(position));
        for wrong in ["", "3", "a-1", "1-", "1--1", "70000-1", "1-5000000000"] {
            assert!(
                read(wrong).is_err_and(|it| it.code == code::INVALID_PARAMS),
                "{wrong}"
            );
        }
    }
}
