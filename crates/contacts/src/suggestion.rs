//! The nearest word of a list, for messages.

/// Returns the number of character edits from `a` to `b` (Levenshtein 1966).
fn edit_distance(a: &str, b: &str) -> usize {
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

/// Returns `; did you mean ...?` if a word of the list is near.
pub(crate) fn suggest<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    // A longer text than any word is near none of them.
    if word.len() > 64 {
        return String::new();
    }
    let found = words.into_iter().map(|one| (edit_distance(word, one), one)).min();
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
        assert_eq!(suggest("contcat", ["contact", "range"]), "; did you mean \"contact\"?");
        assert_eq!(suggest("plasmaduct", ["contact", "range"]), "");
        assert_eq!(suggest("x".repeat(1000).as_str(), ["contact"]), "");
    }
}
