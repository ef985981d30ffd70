"""Uploads as streams: tar.gz, zip and JSON Lines → entries, one at a time, in constant memory.

Nothing is extracted. A path is checked before its content is looked at: one that would leave the project, a link or
a device ends the whole upload (`UnsafeEntry`); directories are passed over; a common leading folder stays. Paths are
NFC. A path that comes twice is yielded twice: the later one counts, which `pipeline` sees to. What is decompressed is
counted while it is read, whatever the headers promise. A file above `max_file_bytes` is read past, never kept.
An archive inside an archive is a file like any other.
"""
