use std::collections::BTreeMap;

/// The roles of a chat (role: words), each with how many words it said.
pub fn roles(chat: &str) -> BTreeMap<String, usize> {
    let mut said = BTreeMap::new();
    for line in chat.lines() {
        if let Some((role, words)) = line.split_once(':') {
            *said.entry(role.trim().to_string()).or_insert(0) += words.split_whitespace().count();
        }
    }
    said
}

/// The same as one text.
pub fn describe(chat: &str) -> String {
    let said: Vec<String> = roles(chat).iter().map(|(role, words)| format!("{role}={words}")).collect();
    said.join(",")
}
