"""Gates of the optimisations: does a switch keep what its class promises? (optimisation specification, section 5.2)"""
