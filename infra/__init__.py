"""The Pulumi program: settings, names, IAM documents and the two kinds of stack."""
