"""The protocol cases of the Realtime specification, run over the wire against any server."""
