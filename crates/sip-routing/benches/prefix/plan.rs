//! A numbering plan such as carriers sell it: prefixes of 1 to 10 digits below the country codes of E.164, and numbers to route.
//!
//! Real plans are clustered: few countries have most prefixes, and a prefix that is divided at all has several of its ten parts. The
//! numbers are pseudo-random and the same in each run.

use std::collections::HashSet;

/// Country codes of E.164, those of the North American plan with their area code.
const COUNTRIES: &str = "1 1204 1242 1246 1264 1268 1284 1340 1345 1441 1473 1649 1658 1664 1670 1671 1684 1721 1758 1767 1784 1787 1809 1829 1849 \
    1868 1869 1876 20 211 212 213 216 218 220 221 222 223 224 225 226 227 228 229 230 231 232 233 234 235 236 237 238 239 240 241 242 \
    243 244 245 246 247 248 249 250 251 252 253 254 255 256 257 258 260 261 262 263 264 265 266 267 268 269 27 290 291 297 298 299 30 \
    31 32 33 34 350 351 352 353 354 355 356 357 358 359 36 370 371 372 373 374 375 376 377 378 379 380 381 382 383 385 386 387 389 39 \
    40 41 420 421 423 43 44 45 46 47 48 49 500 501 502 503 504 505 506 507 508 509 51 52 53 54 55 56 57 58 590 591 592 593 594 595 \
    596 597 598 599 60 61 62 63 64 65 66 670 672 673 674 675 676 677 678 679 680 681 682 683 685 686 687 688 689 690 691 692 7 77 800 \
    808 81 82 84 850 852 853 855 856 86 870 878 880 881 882 883 886 888 90 91 92 93 94 95 960 961 962 963 964 965 966 967 968 970 971 \
    972 973 974 975 976 977 979 98 992 993 994 995 996 998";
const LONGEST: usize = 10;

/// A pseudo-random sequence (Knuth's MMIX).
pub struct Sequence(pub u64);

impl Sequence {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    fn digit(&mut self) -> char {
        char::from(b'0' + self.below(10) as u8)
    }
}

/// Different prefixes in random order.
pub fn prefixes(count: usize) -> Vec<String> {
    let countries: Vec<&str> = COUNTRIES.split_ascii_whitespace().collect();
    let mut sequence = Sequence(13);
    // By country: a new prefix divides one that exists.
    let mut plans: Vec<Vec<String>> = countries
        .iter()
        .map(|code| vec![(*code).to_owned()])
        .collect();
    let mut all: Vec<String> = countries.iter().map(|code| (*code).to_owned()).collect();
    let mut known: HashSet<String> = all.iter().cloned().collect();
    while all.len() < count {
        // The minimum of two favours some countries, as real plans do.
        let country = sequence
            .below(countries.len())
            .min(sequence.below(countries.len()));
        let plan = &mut plans[country];
        let parent = plan[sequence.below(plan.len())].clone();
        let step = 1 + sequence.below(2);
        if parent.len() + step > LONGEST {
            continue;
        }
        let mut stem = parent;
        for _ in 1..step {
            stem.push(sequence.digit());
        }
        for _ in 0..=sequence.below(10) {
            let mut prefix = stem.clone();
            prefix.push(sequence.digit());
            if all.len() < count && known.insert(prefix.clone()) {
                plan.push(prefix.clone());
                all.push(prefix);
            }
        }
    }
    for index in (1..all.len()).rev() {
        all.swap(index, sequence.below(index + 1));
    }
    all
}

/// Numbers of 11 to 13 digits, nine of ten below one of the prefixes.
pub fn numbers(prefixes: &[String], count: usize) -> Vec<Vec<u8>> {
    let mut sequence = Sequence(29);
    (0..count)
        .map(|_| {
            let mut number = match sequence.below(10) {
                0 => String::new(),
                _ => prefixes[sequence.below(prefixes.len())].clone(),
            };
            let length = 11 + sequence.below(3);
            while number.len() < length {
                number.push(sequence.digit());
            }
            number.into_bytes()
        })
        .collect()
}
