"""Games as files: read, recorded, shown, exported."""
