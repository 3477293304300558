"""Omni-DuplexEval: what a model says while it watches, when it says it, and what a judge makes of both.

Benchmark specification, section 5.
"""
