"""placeholder"""
def add(*a): pass
