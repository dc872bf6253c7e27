"""Games as files: reading, recording, showing and exporting them."""
