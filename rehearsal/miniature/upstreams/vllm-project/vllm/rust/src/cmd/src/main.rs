fn main() {
    println!("{}", vllm_server::describe());
}
