"""How messages go from stage to stage: by reference in a process, by a ring within a host, by ZeroMQ between hosts."""
