use std::collections::HashMap;

/// Numbers the words of a text in the order that they are met in.
pub fn tokens(text: &str) -> Vec<usize> {
    let mut known: HashMap<&str, usize> = HashMap::new();
    text.split_whitespace()
        .map(|word| {
            let next = known.len();
            *known.entry(word).or_insert(next)
        })
        .collect()
}
