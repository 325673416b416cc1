"""The Rust parts, the front end as a program and a module. The real one is PyO3's; this needs no crate."""

from setuptools_rust import Binding, RustExtension


def rust_extensions(*, optional=False):
    return [
        RustExtension(
            target="vllm.vllm-rs",
            path="rust/src/cmd/Cargo.toml",
            args=["--bin", "vllm-rs"],
            features=["native-tls-vendored"],
            binding=Binding.Exec,
            optional=optional,
        ),
        RustExtension(
            target="vllm._rust_tool_parser",
            path="rust/src/parser/python/Cargo.toml",
            binding=Binding.NoBinding,
            optional=optional,
        ),
    ]
