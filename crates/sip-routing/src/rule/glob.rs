//! Patterns with wildcards inside, matched in one pass: all positions of the pattern at once, one bit each.
//!
//! Each byte of a text costs a few instructions, whatever the pattern is. There is no backtracking, so a hostile text costs as much as
//! any other of its length.

use super::pattern::Element;
use super::text::Text;

/// The maximum number of elements of a pattern: the states before and behind each of them fit into a word.
pub(super) const MAX_ELEMENTS: usize = u128::BITS as usize - 1;

/// A compiled pattern. State `i` means that the text so far matches the first `i` elements, not counting `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    /// What every matching text begins with.
    literal: Box<[u8]>,
    /// What every matching text ends with.
    suffix: Box<[u8]>,
    /// The class of each byte; 0: the pattern does not name it.
    classes: Box<[u8; 256]>,
    /// For each class, the states in which its bytes lead to the next state.
    moves: Box<[u128]>,
    /// The states that every byte keeps: a `*` is here.
    stays: u128,
    /// The last state.
    last: u128,
    /// Only telephone numbers match.
    for_numbers: bool,
}

impl Glob {
    /// Compiles at most [`MAX_ELEMENTS`] elements.
    pub(super) fn new(elements: &[Element]) -> Self {
        let (mut any, mut stays, mut state) = (0, 0, 1);
        let mut letters: Vec<(u8, u128)> = Vec::new();
        for element in elements {
            match element {
                Element::Star => {
                    stays |= state;
                    continue;
                }
                Element::Any => any |= state,
                Element::OneOf(octets) => {
                    for octet in octets {
                        match letters.iter_mut().find(|(letter, _)| letter == octet) {
                            Some((_, states)) => *states |= state,
                            None => letters.push((*octet, state)),
                        }
                    }
                }
            }
            state <<= 1;
        }
        let (mut classes, mut moves) = (Box::new([0; 256]), vec![any]);
        for (class, (octet, states)) in (1..).zip(letters) {
            if let Some(place) = classes.get_mut(usize::from(octet)) {
                *place = class;
                moves.push(states | any);
            }
        }
        let backwards = elements.iter().rev();
        let mut suffix: Box<[u8]> = backwards.map_while(Element::letter).collect();
        suffix.reverse();
        Self {
            literal: elements.iter().map_while(Element::letter).collect(),
            suffix,
            classes,
            moves: moves.into(),
            stays,
            last: state,
            for_numbers: false,
        }
    }

    /// Compiles elements that only telephone numbers match.
    pub(super) fn for_numbers(elements: &[Element]) -> Self {
        Self {
            for_numbers: true,
            ..Self::new(elements)
        }
    }

    /// What every matching text begins with.
    pub(super) fn literal(&self) -> &[u8] {
        &self.literal
    }

    /// Whether the whole text matches.
    pub(super) fn matches(&self, text: &Text<'_>) -> bool {
        if self.for_numbers && !text.is_number() {
            return false;
        }
        match text.as_plain() {
            Some(bytes) => {
                // Comparing no bytes at a dangling address takes some processors 100 ns.
                let fits = self.suffix.is_empty() || bytes.ends_with(&self.suffix);
                fits && self.accepts(bytes.iter().copied())
            }
            None => self.accepts(text.bytes()),
        }
    }

    #[inline]
    fn accepts(&self, octets: impl Iterator<Item = u8>) -> bool {
        let mut states = 1_u128;
        for octet in octets {
            let class = self.classes.get(usize::from(octet)).copied();
            let moves = self.moves.get(usize::from(class.unwrap_or(0)));
            let moves = moves.copied().unwrap_or(0);
            states = (states & moves) << 1 | states & self.stays;
            if states == 0 {
                return false;
            }
            if states & self.last & self.stays != 0 {
                return true;
            }
        }
        states & self.last != 0
    }
}
