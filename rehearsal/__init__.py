"""The rehearsal: the whole program, unchanged, on one machine and with no AWS account."""
