"""The parts of running stages in worker processes: layout, routing, wiring, states, and what front and workers say."""
