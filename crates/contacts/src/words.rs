//! The nearest word of a list, for messages.

/// Letters to change, add or leave out to make `a` of `b` (Levenshtein 1966).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

/// `; did you mean ...?` where a word of the list is near.
pub(crate) fn hint<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    // what is longer than any word is near none of them
    if word.len() > 64 {
        return String::new();
    }
    let found = words.into_iter().map(|one| (distance(word, one), one)).min();
    match found {
        Some((changes, one)) if changes > 0 && changes <= word.chars().count().max(3) / 3 + 1 => {
            format!("; did you mean {one:?}?")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_named_and_far_ones_are_not() {
        assert_eq!(hint("contcat", ["contact", "range"]), "; did you mean \"contact\"?");
        assert_eq!(hint("plasmaduct", ["contact", "range"]), "");
        assert_eq!(hint("x".repeat(1000).as_str(), ["contact"]), "");
    }
}
