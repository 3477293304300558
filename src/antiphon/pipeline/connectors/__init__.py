"""How messages go from stage to stage: by a ring within a host, by ZeroMQ between hosts.

Inside a process the device loop hands the message itself to the next stage.
"""
