"""VividCortex' weighted linear regression, number for number; the right formula beside a wrong one (`…_correct`, rules=safe)."""
