"""The table network, its compiled passes, its policy, and policy files."""
