"""Load of live sessions: many at once, paced as microphones would, and how soon each second of sound is answered."""
