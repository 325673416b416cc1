/// What the front end says of itself.
pub fn describe() -> String {
    let tokens = vllm_tokenizer::tokens("to be or not to be");
    format!("vllm-rs {:?} {}", tokens, vllm_chat::describe("user: hello there\nassistant: hello"))
}
