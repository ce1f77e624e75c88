"""placeholder"""
class _No:
    id="x"; title=""; append=False; version=1; tables=()
    def recognise(self,name,head): return False
class CruiseControlJson(_No): pass
class CruiseControlText(_No): pass
