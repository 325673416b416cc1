//go:build tools

// Package tools pins the language host that runs Python programs under an engine built from source.
package tools

import _ "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"
