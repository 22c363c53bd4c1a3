//! Lines of input: what a gateway is told.

use super::behaviour::{Behaviour, UnknownBehaviour};

/// A line of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Print what all gateways have counted.
    Counts,
    /// The gateway with this place in the list behaves like this from now on.
    Behave(usize, Behaviour),
}

/// What is wrong with a line of input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidOrder {
    #[error("`{0}`: use `counts`, or the number of a gateway and what it does, such as `1 silent`")]
    Line(String),
    #[error("there is no gateway {number}: use 1 to {gateways}")]
    Number { number: usize, gateways: usize },
    #[error(transparent)]
    Behaviour(#[from] UnknownBehaviour),
}

impl Order {
    pub(super) fn parse(line: &str, gateways: usize) -> Result<Self, InvalidOrder> {
        let line = line.trim();
        if line == "counts" {
            return Ok(Self::Counts);
        }
        let unknown = || InvalidOrder::Line(line.to_owned());
        let (number, behaviour) = line.split_once(' ').ok_or_else(unknown)?;
        let number: usize = number.parse().map_err(|_| unknown())?;
        if !(1..=gateways).contains(&number) {
            return Err(InvalidOrder::Number { number, gateways });
        }
        Ok(Self::Behave(number - 1, behaviour.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_orders_one_gateway_or_says_what_is_wrong_with_it() {
        let parse = |line| Order::parse(line, 3).map_err(|problem| problem.to_string());
        assert_eq!(parse("counts"), Ok(Order::Counts));
        assert_eq!(parse("3 silent"), Ok(Order::Behave(2, Behaviour::Silent)));
        let refusing = Behaviour::Refusing(503);
        assert_eq!(parse(" 1 refusing 503 "), Ok(Order::Behave(0, refusing)));
        for (line, problem) in [
            ("", "``: use `counts`, or the number"),
            ("silent", "`silent`: use `counts`"),
            ("0 silent", "there is no gateway 0: use 1 to 3"),
            ("4 silent", "there is no gateway 4"),
            ("1 sleeping", "`sleeping` is no behaviour"),
            ("1 refusing 200", "`refusing 200`"),
        ] {
            let found = parse(line).expect_err(line);
            assert!(found.starts_with(problem), "{line}: {found}");
        }
    }
}
