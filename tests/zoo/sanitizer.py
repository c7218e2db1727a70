# counts: no
# under: compute-sanitizer --tool memcheck --report-api-errors no --log-file /dev/null --error-exitcode 9
"""memcheck finds nothing; the status would tell. It is injected where a counter of launches would be."""
from _common import few_kernels, needs

needs("torch")
few_kernels()
