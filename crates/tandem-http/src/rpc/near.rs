//! What somebody who mistypes a name probably means.

/// The closest candidate, if one is close enough to be a likely typo.
pub fn nearest<'c>(given: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let given = given.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&given, &candidate.to_ascii_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_only_when_it_is_near() {
        assert_eq!(nearest("adress", ["transport", "address"]), Some("address"));
        assert_eq!(nearest("UPD", ["udp", "tcp"]), Some("udp"));
        assert_eq!(nearest("colour", ["transport", "address"]), None);
    }
}
