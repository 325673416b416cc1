//go:build tools

// Package tools pins BuildKit, for machines that cannot pull its image.
package tools

import (
	_ "github.com/moby/buildkit/cmd/buildctl"
	_ "github.com/moby/buildkit/cmd/buildkitd"
)
