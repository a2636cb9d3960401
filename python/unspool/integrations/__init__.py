"""What particular trainers need beside the HTTP API. Each module imports its trainer only when called."""
