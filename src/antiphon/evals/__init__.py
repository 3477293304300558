"""Quality scores of what a server says: words, voice, flow of the sound, and choices; a tier on top of `bench`."""
