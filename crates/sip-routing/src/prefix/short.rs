//! Prefixes of 1 to 15 digits, which is the length of E.164 numbers: a hash table with one probe for each length that exists.

use super::digits::Digits;
use super::lengths::Lengths;
use super::lists::ListId;
use std::iter;

/// A prefix in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortRow {
    /// [`Digits::key`].
    pub(super) key: u64,
    pub(super) list: ListId,
    pub(super) line: u32,
}

/// A place of the hash table, free if the key is 0. Three words instead of two: without padding, and aligned to four bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: [u32; 2],
    /// While the table is built, the index of the row.
    list: u32,
}

#[derive(Debug, Default)]
pub(super) struct Short {
    /// Two for each row. The place of a key is that of its hash or, if others are there, the next free one.
    slots: Box<[Slot]>,
    lengths: Lengths,
    count: usize,
}

impl Short {
    /// Builds the table. Of rows with one prefix, the first counts, and `repeated` gets it with each further one.
    pub(super) fn build(rows: &[ShortRow], mut repeated: impl FnMut(&ShortRow, &ShortRow)) -> Self {
        let mut table = Self {
            slots: vec![Slot::default(); rows.len() * 2].into(),
            lengths: Lengths::for_prefixes(rows.len()),
            count: 0,
        };
        for (row, index) in rows.iter().zip(0..) {
            let Some(slot) = table.slot_mut(row.key) else {
                continue; // There is a free slot for each row.
            };
            if slot.key() == 0 {
                *slot = Slot::new(row.key, index);
                table.lengths.insert(Digits::of_key(row.key));
                table.count += 1;
            } else if let Some(first) = rows.get(slot.list as usize) {
                repeated(first, row);
            }
        }
        for slot in &mut table.slots {
            let row = rows.get(slot.list as usize);
            slot.list = row.map_or(0, |row| row.list.0);
        }
        table
    }

    /// All matching prefixes with their length, the longest first.
    #[inline]
    pub(super) fn matches(&self, number: Digits) -> impl Iterator<Item = (u32, ListId)> {
        let mut lengths = self.lengths.of(number);
        iter::from_fn(move || {
            while let Some(length) = lengths.checked_ilog2() {
                lengths &= !(1 << length);
                if let Some(list) = self.get(number.key(length)) {
                    return Some((length, list));
                }
            }
            None
        })
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + self.lengths.bytes()
    }

    #[inline]
    fn get(&self, key: u64) -> Option<ListId> {
        let slot = self.slots.get(self.position(key))?;
        (slot.key() == key).then_some(ListId(slot.list))
    }

    fn slot_mut(&mut self, key: u64) -> Option<&mut Slot> {
        let position = self.position(key);
        self.slots.get_mut(position)
    }

    /// Where the key is, or would be inserted.
    #[inline]
    fn position(&self, key: u64) -> usize {
        let mut position = place(key, self.slots.len());
        // Ends, because half of the slots are free.
        loop {
            match self.slots.get(position) {
                Some(slot) if slot.key() != key && slot.key() != 0 => position += 1,
                None if position > 0 => position = 0,
                _ => return position,
            }
        }
    }
}

impl Slot {
    const fn new(key: u64, list: u32) -> Self {
        Self {
            key: [(key >> 32) as u32, key as u32],
            list,
        }
    }

    #[inline]
    fn key(self) -> u64 {
        let [high, low] = self.key;
        u64::from(high) << 32 | u64::from(low)
    }
}

/// A number below `count`. Callers do not choose what is in the table, so no secret is needed.
#[inline]
fn place(key: u64, count: usize) -> usize {
    let mixed = (key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    ((u128::from(mixed) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest way from the hash of a key to its slot.
    fn longest_way(numbers: impl Iterator<Item = u64>) -> usize {
        let rows: Vec<ShortRow> = numbers
            .map(|number| {
                let digits = Digits::of_number(number.to_string().as_bytes()).expect("digits");
                ShortRow {
                    key: digits.key(digits.len()),
                    list: ListId(0),
                    line: 0,
                }
            })
            .collect();
        let table = Short::build(&rows, |_, _| panic!("all keys differ"));
        let way = |row: &ShortRow| {
            let slots = table.slots.len();
            let found = table.position(row.key);
            (found + slots - place(row.key, slots)) % slots
        };
        rows.iter().map(way).max().unwrap_or_default()
    }

    #[test]
    fn numbers_in_sequence_spread_over_the_slots() {
        for step in [1, 10, 16, 1_000, 65_536, 1_000_000] {
            let way = longest_way((0..100_000).map(|index| 49_000_000_000_000 + index * step));
            assert!(way < 64, "step {step}: {way} slots");
        }
    }
}
