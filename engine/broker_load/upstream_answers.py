"""placeholder"""
def render(result, parameters): return None
