"""The `musicgen` command: `main` has the table of verbs, and each verb is one file."""
