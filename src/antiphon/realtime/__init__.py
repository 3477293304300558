"""The duplex session without I/O: no event loop, thread, socket or wall clock. Bytes in, bytes out, time passed in."""
