//go:build tools

// Package tools pins the engine that a rehearsal runs when no release of Pulumi can be had.
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
