"""Checks: relations of findings, whose being empty means "passed".

Precedence  integrity > replicas > ids > fencing, epochs > groups.aborted > markers > offsets, sequences >
            hanging, groups: a fault is one finding, of the first check that can name it; the others leave out
            what it hides.
"""
