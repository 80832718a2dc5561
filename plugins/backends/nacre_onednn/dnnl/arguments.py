"""Numbers of a primitive's arguments, DNNL_ARG_*: its sources, its result, and their gradients."""

SRC, SRC_1 = 1, 2
DST = 17
WEIGHT = 33
BIAS = 41
WORKSPACE = 64
SCRATCHPAD = 80
DIFF_SRC, DIFF_DST, DIFF_WEIGHT, DIFF_BIAS = 129, 145, 161, 169
